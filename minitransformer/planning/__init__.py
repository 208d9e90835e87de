"""What a training will cost: floating-point operations, memory, hours."""
