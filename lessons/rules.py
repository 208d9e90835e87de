"""What ``minitransformer train CONFIG --rules lessons/mine`` runs: the functions in ``mine/`` compute in the engine."""

from course.rules import own_rules

__all__ = ["own_rules"]
