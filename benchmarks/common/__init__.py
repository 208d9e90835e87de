"""What all benchmarks share: commands and results, models and batches, real text, the floor of matrix products."""
