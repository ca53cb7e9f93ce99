"""Eager ops: the registry of native ops, their kernels, and the CPU fallback.

`registry.py` lists how every ATen op runs on the card and `fallback_reasons.py` why one does not;
`eager.py` registers the kernels. The other modules are kernels that call other ops of the card.
"""
