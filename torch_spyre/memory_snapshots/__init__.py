"""Snapshots of device memory: reading them, what allocated the memory, and when.

The files are those of `torch.spyre.memory._dump_snapshot`, which have the form of `torch.cuda`'s.
This package needs neither torch nor a card.
"""
