"""Updates whose loss or gradient is NaN or infinite: which value is, and whether the run stops or skips them."""

from minitransformer.autograd.anomaly import first_nonfinite
from minitransformer.errors import AnomalyError, RanksError, TrainingError
from minitransformer.nn import ParameterVector
from minitransformer.training.metrics import StepResult

MAX_SKIPPED = 10
"""Updates skipped in a row after which the run stops: what affects all of them does not go away."""


class NonfiniteUpdates:
    """Stops the run at an update that is not finite or, with ``training.skip_nonfinite``, lets it skip the update.

    All ranks have the same sum of gradients, and so decide alike.
    """

    def __init__(self, parameters: ParameterVector, n_ranks: int, skip: bool):
        self._parameters, self._n_ranks, self._skip = parameters, n_ranks, skip
        self._last, self._in_a_row = 0, 0

    def skip_or_raise(self, update: int, result: StepResult) -> str:
        """What is not finite in ``update``, if it may be skipped.

        Raises:
            TrainingError (several ranks: RanksError): it may not, or it is the last of MAX_SKIPPED in a row.
        """
        found = self._find()
        self._in_a_row = self._in_a_row + 1 if update == self._last + 1 else 1
        self._last = update
        if self._skip and self._in_a_row < MAX_SKIPPED:
            return found
        message = (
            f"train: loss and gradient norm must be finite, got {result.loss} and {result.gradient_norm} at update "
            f"{update}: {found}; --detect-anomaly finds the operation where it began; the checkpoints before it "
            "are whole; resume with training.skip_nonfinite = true, or lower training.lr_scale or set "
            "training.clip_norm with another training.directory, keeping the parameters with training.init_from"
        )
        if self._skip:
            message += f"; {MAX_SKIPPED} updates in a row were skipped"
        raise (TrainingError if self._n_ranks == 1 else RanksError)(message)

    def _find(self) -> str:
        """The first parameter that is not finite, else the first gradient. Parameters are each rank's own, so several
        ranks look only at gradients and report the same."""
        for what, kind in (("parameter", "data"), ("gradient of", "grad"))[self._n_ranks > 1 :]:
            for name in self._parameters.names:
                if found := first_nonfinite(getattr(self._parameters[name], kind)):
                    return f"{what} {name} is {found}"
        return "every gradient is finite; the sum of their squares overflows"


def explain_anomaly(update: int, error: AnomalyError, parameters: ParameterVector) -> TrainingError:
    """What `detect_anomaly` found in ``update`` of this rank, with the nearest parameter, which shows the layer."""
    names = [name for name in parameters.names if parameters[name] is error.leaf]
    nearest = f" (nearest parameter: {names[0]})" if names else ""
    return TrainingError(
        f"train: every rule must give finite values, got an anomaly at update {update}: {error}{nearest}; the "
        "checkpoints before it are whole"
    )
