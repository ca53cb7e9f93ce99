"""Compiled bundles at run time: their programs, the memory between stages, and launches."""
