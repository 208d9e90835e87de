"""Forward and backward of every op, in plain array code. ``registry.RULES`` finds each rule by its name."""
