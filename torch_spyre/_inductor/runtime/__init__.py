"""Compiled bundles at run time: programs of their stages, memory between them, launches."""
