"""Forward and backward of every op, in plain array code. ``registry.RULES`` maps the name of each to its Rule."""
