"""Training on several ranks: two measured, many predicted by a model of their cost."""
