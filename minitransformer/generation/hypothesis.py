"""A finished translation and how it is scored."""

import math
from dataclasses import dataclass

from minitransformer.config import EOS
from minitransformer.errors import ConfigError


@dataclass(frozen=True)
class Hypothesis:
    """One finished output of a search.

    ids: the tokens, without BOS and EOS
    log_prob: ln P(Y | X), nats; Y is the tokens and the EOS after them, if the model generated one
    score: log_prob / length_penalty(|Y|), by which hypotheses of different lengths are compared
    """

    ids: list[int]
    log_prob: float
    score: float

    @classmethod
    def from_tokens(cls, tokens: list[int], log_prob: float, alpha: float) -> "Hypothesis":
        """The hypothesis of all tokens that a search chose, EOS included; all of them count in |Y|."""
        ids = tokens[:-1] if tokens[-1:] == [EOS] else tokens
        return cls(ids, log_prob, log_prob / length_penalty(len(tokens), alpha))


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^alpha      [Wu et al. 2016, eq. 14; sec. 6.1 with alpha = 0.6]

    |Y| counts every token the model chose, EOS too: a hypothesis cut off by the output limit has chosen no EOS.
    alpha: 0 (plain log-probability) or more (longer hypotheses are preferred), up to 100; inf where it overflows
    """
    try:
        return ((5 + length) / 6) ** alpha
    except OverflowError:
        return math.inf


def check_alpha(alpha: float) -> None:
    """ConfigError if alpha is not from 0 to 100."""
    if not 0 <= alpha <= 100:  # so that NaN is refused too
        raise ConfigError(f"translate: alpha must be from 0 to 100, got {alpha}")
