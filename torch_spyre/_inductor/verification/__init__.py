"""Verifies kernels while they run: an interpreter of OpSpecs that computes bounds of every result.

`interpreter` evaluates the OpSpecs of a kernel on the bytes that its arguments had before the
launch, in float64, with the references of the op table. A value is an interval (`bounds`): it
contains every result that the roundings of the element formats (`value_formats`) and the
accumulation of sums allow. `comparison` finds elements of the outputs that are outside, and
`isolation` the op that they come from, by running the kernel's ops one at a time. Nothing here
shares code with KTIR, the back end or the card.
"""
