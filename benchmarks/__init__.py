"""Measurements: speed beside PyTorch and beside our own matrix products, learning beside a PyTorch model.

Every figure in ``results/`` comes from a program here and carries the machine, the versions and the seeds. A program
writes NAME.MAKER.json and .md there, where MAKER is that of the processor: amd, intel or other. With --quick it writes
nothing.
"""
