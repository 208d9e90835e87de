"""What a GPU does: correctness, updates, translation, memory, NCCL and whole trainings, each a stage."""
