"""Fuzzing: random inputs for whatever reads a text, a file or an argument, in worker processes.

`python -m fuzz` runs it. A kind of input is a class in `fuzz/kinds`; inputs derive from a seed and
a number alone. What fails is saved as a case in `tests/fuzz/cases`, which pytest runs.
"""
