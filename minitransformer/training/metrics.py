"""The metrics of a run: one JSON object per line of ``metrics.jsonl``.

Every line has ``kind`` and ``update`` (updates done so far), ``epoch`` (counted from 1) and ``seconds`` (since the run
began, without the time in which it was stopped). Losses are means in nats per target token without padding:

- ``train``, every ``log_every`` updates, over the updates since the line before: ``loss`` (label-smoothed), ``nll``
  (unsmoothed), ``ppl``, ``tokens_per_second`` (target tokens), ``learning_rate`` (last), ``gradient_norm`` (mean;
  one that is not finite counts as 0)
- ``valid``, every ``validate_every`` updates and at the end: ``loss``, ``nll``, ``ppl``, and ``bleu`` with its
  ``signature`` if asked for
- ``skipped``, with ``training.skip_nonfinite``, for an update that was not made: ``reason``, what was NaN or infinite
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from minitransformer.errors import DataError, quote
from minitransformer.files import MAX_LINE


@dataclass(frozen=True)
class StepResult:
    """The figures of an update. ``loss`` is label-smoothed, ``nll`` is not: exp(nll) is the perplexity. Nats per token.

    ``is_finite`` is False if loss or gradient is not: then the parameters are as they were.
    """

    loss: float
    nll: float
    n_tgt_tokens: int
    gradient_norm: float
    learning_rate: float
    is_finite: bool = True


def perplexity(nll: float) -> float:
    """exp of the unsmoothed negative log-likelihood per token, in nats  [sec. 5.4, Table 3]; inf where it overflows."""
    return math.exp(nll) if nll < 709.0 else math.inf


@dataclass
class Meter:
    """Sums over some updates. Checkpoints store them, so the means of a resumed run are the same."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    updates: int = 0
    gradient_norm: float = 0.0
    seconds: float = 0.0

    def add(self, result: StepResult, seconds: float) -> None:
        """Add the result of one update, which took ``seconds``; losses are weighted by target tokens."""
        self.loss += result.loss * result.n_tgt_tokens
        self.nll += result.nll * result.n_tgt_tokens
        self.tokens += result.n_tgt_tokens
        self.updates += 1
        self.gradient_norm += result.gradient_norm if result.is_finite else 0.0
        self.seconds += seconds

    def means(self) -> dict:
        return losses(self.loss / self.tokens, self.nll / self.tokens) | {
            "tokens_per_second": self.tokens / self.seconds if self.seconds else 0.0,
            "gradient_norm": self.gradient_norm / self.updates,
        }


def losses(loss: float, nll: float) -> dict:
    """The three figures that always go together; ``ppl`` comes from ``nll``, never from the smoothed ``loss``."""
    return {"loss": loss, "nll": nll, "ppl": perplexity(nll)}


def read_metrics(path: str | Path) -> list[dict]:
    """The lines of a metrics file, in order. A last line that a killed run left unfinished is ignored.

    Raises:
        DataError: the file cannot be read, or any other line is not a JSON object with kind and update.
    """
    values = []
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
                if line.endswith(b"\n") or len(line) == MAX_LINE:  # else the run was killed while it wrote
                    values.append(_parse(line, f"{path}:{number}"))
    except OSError as error:
        raise DataError(f"metrics: {path} cannot be read: {error.strerror}") from error
    return values


def _parse(line: bytes, where: str) -> dict:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict) or "kind" not in values or type(values.get("update")) is not int:
        raise DataError(
            f"metrics: {where} must be a JSON object with kind and update, got {quote(line)}; delete the line"
        )
    return values
