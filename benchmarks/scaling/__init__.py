"""Training on two ranks of one machine beside one process."""
