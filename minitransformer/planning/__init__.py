"""The cost of a training run, in advance: floating-point operations, memory, hours."""

from minitransformer.planning.flops import Cost, batch_flops, parameter_count
from minitransformer.planning.memory import MemoryPlan, plan_memory

__all__ = ["Cost", "MemoryPlan", "batch_flops", "parameter_count", "plan_memory"]
