"""Reference models of the card, and comparisons for tests.

`formats` models the encoding of values, `layouts` their positions in device memory. Both are slow
and simple, and share no code with the C++ implementation that they are compared with.
"""
