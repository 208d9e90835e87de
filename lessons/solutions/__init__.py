"""Solutions, one module per lesson: the exercise ``04_attention.weights`` is ``weights`` in ``lesson_04``."""
