"""What all benchmarks share: models and batches, real text, the machine, the floor of matrix products, tables."""
