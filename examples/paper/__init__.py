"""The claims, tables and figures of the paper, measured and drawn: `python -m examples.paper.NAME`."""
