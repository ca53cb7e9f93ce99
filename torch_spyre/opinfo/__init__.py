"""Run PyTorch's op database on the card: which ops are native, fall back, are wrong or crash.

`run` compares one sample with the CPU, `rules` lists exceptions to the comparison, `pool` runs
samples in worker processes that may crash, `results` aggregates verdicts, and `html_report`
renders them. The command `spyre opinfo` uses all of them.
"""
