"""The cost of a training run in advance: floating-point operations, memory, hours."""

from minitransformer.planning.flops import Cost, batch_flops, expected_hours, parameter_count
from minitransformer.planning.memory import Plan, Shape, plan

__all__ = ["Cost", "Plan", "Shape", "batch_flops", "expected_hours", "parameter_count", "plan"]
