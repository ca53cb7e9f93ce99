"""Reading and writing KTIR text: the parser with its leniencies, the printer, affine syntax."""
