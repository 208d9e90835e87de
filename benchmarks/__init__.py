"""Measurements: speed beside PyTorch and beside our own matrix products, learning beside a PyTorch model.

Every figure in ``results/`` comes from a program here and carries the machine, the versions and the seeds. A program
writes NAME.MAKER.json and .md there, MAKER being amd, intel or other, as the processor; with --quick it writes nothing.
"""
