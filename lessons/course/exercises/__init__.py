"""The exercises of each lesson: ``EXERCISES`` in one module per notebook."""
