"""The cost of a training run in advance: floating-point operations, memory, hours."""

from minitransformer.planning.flops import Cost, batch_flops, expected_hours, parameter_count
from minitransformer.planning.memory import Plan, Shape, plan
from minitransformer.planning.micro_batches import larger_micro_batches

__all__ = ["Cost", "Plan", "Shape", "batch_flops", "expected_hours", "larger_micro_batches", "parameter_count", "plan"]
