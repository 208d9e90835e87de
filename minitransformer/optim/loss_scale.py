"""Loss scaling: gradients below 6e-8 underflow in float16  [Micikevicius et al. 2018]."""

import math
from dataclasses import dataclass

from minitransformer.errors import TrainingError

FIRST, GROWTH_AFTER = 2.0**15, 2000


@dataclass
class LossScale:
    """The loss is multiplied by ``value`` before backward, the gradient divided by it after.

    If a gradient overflows, the update is skipped and the scale halved; after GROWTH_AFTER updates without overflow it
    is doubled. For every precision but float16 it stays 1 and nothing is checked.
    """

    value: float = 1.0
    good_updates: int = 0
    is_needed: bool = False

    @classmethod
    def for_precision(cls, precision: str) -> "LossScale":
        return cls(FIRST, 0, True) if precision == "float16" else cls()

    def adapt(self, gradient_norm: float) -> bool:
        """Adapt the scale; return whether the gradient is finite.

        Raises:
            TrainingError: gradients overflow although the scale is 1.
        """
        if math.isfinite(gradient_norm):
            self.good_updates += 1
            if self.good_updates == GROWTH_AFTER:
                self.value, self.good_updates = 2.0 * self.value, 0
            return True
        if self.value <= 1.0:
            raise TrainingError(
                "train: gradients must be finite in float16, got an overflow at a loss scale of 1; "
                "use execution.precision bfloat16, tf32 or float32"
            )
        self.value, self.good_updates = self.value / 2.0, 0
        return False
