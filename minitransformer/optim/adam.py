"""Adam: a step for every parameter, scaled by running moments of its gradient  [Kingma & Ba 2015; sec. 5.3]."""

import math
from contextlib import nullcontext
from typing import Protocol

from minitransformer.backend import Array, get_array_module
from minitransformer.errors import ConfigError
from minitransformer.kernels import fused_function
from minitransformer.kernels.profile import current as current_profile
from minitransformer.workers import for_blocks


class Vectors(Protocol):
    """What Adam needs from a model: its parameters and their gradients as vectors of one length."""

    data: Array
    grad: Array


class Adam:
    """m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
    w = w - lrate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)      [Kingma & Ba 2015, algorithm 1]

    One pass over the vectors of ``parameters`` (such as a ParameterVector), shared by threads: any number of them gives
    the same bits.

    Attributes:
        m, v: running means of the gradient and of its square, vectors like the parameters.
        step_count: t, the number of updates made.
    """

    def __init__(self, parameters: Vectors, beta1: float = 0.9, beta2: float = 0.98, eps: float = 1e-9):
        if hasattr(parameters, "check_model"):
            parameters.check_model()  # what was added to the model later would not be learned
        xp = get_array_module(parameters.data)
        self.parameters = parameters
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.m = xp.zeros_like(parameters.data)
        self.v = xp.zeros_like(parameters.data)
        self.step_count = 0

    def step(self, learning_rate: float) -> None:
        """One update of the parameters, in place; ConfigError if the rate, which moves all of them, is not a number."""
        if not math.isfinite(learning_rate):
            raise ConfigError(f"adam: learning_rate must be a finite number, got {learning_rate}")
        self.step_count += 1
        step_size = learning_rate / (1.0 - self.beta1**self.step_count)
        inv_sqrt_correction = 1.0 / math.sqrt(1.0 - self.beta2**self.step_count)
        in_one_kernel, profile = fused_function("adam", get_array_module(self.m)), current_profile.get()
        with profile.measure("Adam") if profile else nullcontext():
            if in_one_kernel is None:
                for_blocks(lambda block: self._update_block(block, step_size, inv_sqrt_correction), len(self.m))
                return
            options = {"beta1": self.beta1, "beta2": self.beta2, "eps": self.eps, "step_size": step_size}
            options["inv_sqrt_correction"] = inv_sqrt_correction
            in_one_kernel(self.parameters.data, self.m, self.v, self.parameters.grad, **options)

    def _update_block(self, block: slice, step_size: float, inv_sqrt_correction: float) -> None:
        xp = get_array_module(self.m)
        m, v, grad = self.m[block], self.v[block], self.parameters.grad[block]
        m *= self.beta1
        m += (1.0 - self.beta1) * grad
        v *= self.beta2
        squared = grad * grad
        squared *= 1.0 - self.beta2
        v += squared
        denominator = xp.sqrt(v, out=squared)
        denominator *= inv_sqrt_correction
        denominator += self.eps
        change = xp.divide(m, denominator, out=denominator)
        change *= step_size
        self.parameters.data[block] -= change
