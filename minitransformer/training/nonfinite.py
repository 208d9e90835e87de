"""Updates whose loss or gradient is NaN or infinite: where that comes from, and whether the run stops or skips them.

Nothing is searched as long as all is well. A refused update has changed no parameter, and its dropout masks follow from
(seed, update, micro-batch): so its micro-batches are computed once more, one by one, until one of them is not finite.
"""

import json
from collections.abc import Callable

from minitransformer.autograd import Tensor, detect_anomaly
from minitransformer.autograd.anomaly import first_nonfinite
from minitransformer.backend import Array
from minitransformer.distributed import Communicator
from minitransformer.errors import AnomalyError, RanksError, TrainingError
from minitransformer.nn import ParameterVector
from minitransformer.training.accumulation import GradientAccumulator
from minitransformer.training.metrics import StepResult

MAX_SKIPPED = 10
"""Updates skipped in a row after which the run stops: what hits all of them does not pass."""


class NonfiniteUpdates:
    """Stops the run at an update that is not finite or, with ``training.skip_nonfinite``, lets it skip the update.

    All ranks see the same sums, and so decide alike.
    """

    def __init__(self, accumulator: GradientAccumulator, ranks: Communicator, skip: bool):
        self._accumulator, self._ranks, self._skip = accumulator, ranks, skip
        self._last, self._in_a_row = 0, 0

    def skip_or_raise(self, update: int, result: StepResult) -> str:
        """What is not finite in ``update``, if it may be skipped; a collective.

        Raises:
            TrainingError, of several ranks RanksError: it may not, or it is the last of MAX_SKIPPED in a row.
        """
        where = self._where(update)
        self._in_a_row = self._in_a_row + 1 if update == self._last + 1 else 1
        self._last = update
        if self._skip and self._in_a_row < MAX_SKIPPED:
            return where
        message = nonfinite_message(update, result, f", {where}")
        if self._skip:
            message = f"{message}; {MAX_SKIPPED} updates in a row were skipped"
        raise (TrainingError if self._ranks.size == 1 else RanksError)(message)

    def explained(self, update: int, error: AnomalyError) -> TrainingError:
        """What `detect_anomaly` has found in ``update`` of this rank, with the micro-batch and the parameter."""
        found = self._located()
        where = f", micro-batch {found[0]}: {found[1]}" if found else f": {_named(error, self._accumulator.parameters)}"
        return TrainingError(
            f"train: every rule must give finite values, got an anomaly at update {update}{where}; the "
            "checkpoints before it are whole"
        )

    def _where(self, update: int) -> str:
        found = self._ranks.gather_text(json.dumps(self._located()))
        places = [(*place, rank) for rank, place in enumerate(map(json.loads, found)) if place]
        if not places:
            return "in no micro-batch alone: the sum of their gradients, or of its squares, overflows"
        number, what, rank = min(places)
        return f"micro-batch {number}{f' of rank {rank}' if self._ranks.size > 1 else ''}: {what}"

    def _located(self) -> tuple[int, str] | None:
        """(number, what is not finite) of the first such micro-batch of this rank."""
        for number, compute in self._accumulator.recompute():
            if what := find_nonfinite(self._accumulator.parameters, compute):
                return number, what
        return None


def nonfinite_message(update: int, result: StepResult, where: str = "") -> str:
    """The one line about an update that is not finite; ``where`` is empty if its parameters are gone, as on a GPU."""
    where = where or " (where it began is found with --detect-anomaly)"
    return (
        f"train: loss and gradient norm must be finite, got {float(result.loss)} and {float(result.gradient_norm)} at "
        f"update {update}{where}; the checkpoints before it are whole; resume with training.skip_nonfinite = true, or "
        "lower training.lr_scale or set training.clip_norm with another training.directory"
    )


def find_nonfinite(parameters: ParameterVector, compute: Callable[[], tuple[Tensor, Tensor]]) -> str:
    """What is not finite after ``compute``, forward and backward of one micro-batch: the first such parameter, else the
    first such gradient, else the loss; then the rule with which that began. Empty if loss and gradients are finite."""
    parameters.zero_grad()
    with detect_anomaly(False):
        loss = first_nonfinite(compute()[0].data)
    gradients = _first_of({name: parameters[name].grad for name in parameters.names})
    if not (loss or gradients):
        return ""
    values = _first_of({name: parameters[name].data for name in parameters.names})
    found = f"parameter {values}" if values else f"gradient of {gradients}" if gradients else f"the loss is {loss}"
    try:
        with detect_anomaly():
            compute()
    except AnomalyError as error:
        return f"{found}, first in {_named(error, parameters)}"
    return found


def _first_of(arrays: dict[str, Array]) -> str:
    """The name of the first array that is not finite, and what is in it."""
    return next((f"{name} is {found}" for name, array in arrays.items() if (found := first_nonfinite(array))), "")


def _named(error: AnomalyError, parameters: ParameterVector) -> str:
    """The message with the nearest parameter, which tells the layer."""
    names = [name for name in parameters.names if parameters[name] is error.leaf]
    return f"{error} (nearest parameter: {names[0]})" if names else str(error)
