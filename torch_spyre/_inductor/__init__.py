"""The compiler's front end: from PyTorch graphs to kernels of the card.

Nothing here is imported before the first op or graph is compiled: Inductor takes a second to load.
"""
