"""Readable reference models of the card, and the comparisons that tests make with them.

`formats` says what bits a value becomes, `layouts` says where in device memory they go. Both are
slow and written to be obviously right; neither shares code with the C++ they are compared to.
"""
