"""Measurements of speed and memory, beside PyTorch, other libraries and our own matrix products.

`python -m benchmarks NAME` writes a page and its figures to ``results/``, with the machine and the versions; with
--quick it writes nothing. Where the figures depend on the processor, the files are called NAME.MAKER.json and .md,
MAKER being amd, intel or other.
"""
