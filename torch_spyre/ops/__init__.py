"""Ops on the card outside of compiled graphs: kernels that compile themselves, and the fallback."""
