"""The cost of a training run in advance: floating-point operations, memory, hours."""

from minitransformer.planning.flops import Cost, batch_flops, parameter_count
from minitransformer.planning.memory import Plan, Shape, plan

__all__ = ["Cost", "Plan", "Shape", "batch_flops", "parameter_count", "plan"]
