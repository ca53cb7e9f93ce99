"""PyTorch's op database on the card: what is native, falls back, is wrong or crashes.

`run` compares one sample with the CPU, `rules` says what cannot be compared and why, `pool` gives
samples to worker processes that may die, `results` adds verdicts up, and `page` shows them. The
command `spyre opinfo` puts them together.
"""
