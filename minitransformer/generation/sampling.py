"""Sampling: each next token is drawn at random, with the probability that the model gives it."""

import numpy as np

from minitransformer.backend import Array, to_numpy
from minitransformer.config import EOS
from minitransformer.errors import ConfigError
from minitransformer.generation.decoding import SUPPRESSED_IDS, check_numbers, output_limits
from minitransformer.models import Model


@np.errstate(all="ignore")  # damaged parameters end in one ShapeError, not in NumPy's warnings
def sample(
    model: Model,
    src_ids: Array,
    *,
    max_tokens: int = 100,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
) -> list[list[int]]:
    """y_t ~ softmax(logits / temperature) until EOS, for each prompt or source; the ids without BOS, EOS and prompt.

    src_ids: (B, S), as in `greedy_search`   max_tokens: of an output, 1 or more
    temperature: below 1, probable tokens become more probable; 0: always the most probable token
    top_k: only the k most probable tokens are drawn (0: all)      [Fan et al. 2018]
    top_p: only the fewest tokens with at least this total probability, above 0 (1: all)      [Holtzman et al. 2020]
    seed: the same batch and seed give the same tokens

    Raises:
        ConfigError: an option is out of its range.
        ShapeError: as `greedy_search`.
    """
    if not (1 <= max_tokens < 1 << 31 and 0 <= temperature < np.inf and min(top_k, seed) >= 0 and 0 < top_p <= 1):
        wanted = "max_tokens >= 1, temperature, top_k, seed >= 0 and 0 < top_p <= 1"
        raise ConfigError(f"sample: must have {wanted}, got {(max_tokens, temperature, top_k, top_p, seed)}")
    limits = np.minimum(output_limits(model, to_numpy(src_ids), max_tokens), max_tokens)  # (B,)
    if not len(limits):
        return []
    cache, rng = model.start(src_ids, int(limits.max())), np.random.default_rng(seed)
    live, last, outputs, length = np.arange(len(limits)), cache.start_ids, [[] for _ in limits], 0
    while len(live):
        length += 1
        draws = rng.random(len(limits))[live]  # for those that have ended too: no output depends on another's length
        last = draw_tokens(to_numpy(model.decode_step(last, cache)), draws, temperature, top_k, top_p)  # (R,)
        for sentence, token in zip(live, last.tolist(), strict=True):
            outputs[sentence].append(token)
        goes_on = np.flatnonzero((last != EOS) & (length < limits[live]))
        live, last = live[goes_on], last[goes_on]
        cache.reorder(goes_on)
    return [ids[:-1] if ids[-1] == EOS else ids for ids in outputs]


def draw_tokens(logits: np.ndarray, draws: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """The token of each row at which the cumulative probability, largest first, passes the row's draw.

    logits: (R, V)   draws: (R,), uniform in [0, 1)   tokens: (R,); the other arguments are those of `sample`
    """
    if temperature == 0:
        temperature, top_k = 1.0, 1
    logits = logits.astype(np.float64)
    logits[:, SUPPRESSED_IDS] = -np.inf
    order = np.argsort(-logits, axis=-1, kind="stable")[:, : top_k or None]  # (R, k)
    best = np.take_along_axis(logits, order, axis=-1)
    probs = check_numbers(np.exp((best - best[:, :1]) / temperature))
    sums = probs.cumsum(axis=-1)
    probs[sums - probs >= top_p * sums[:, -1:]] = 0.0  # those before it have enough probability already
    sums = probs.cumsum(axis=-1)
    chosen = (sums > draws[:, None] * sums[:, -1:]).argmax(axis=-1)  # (R,)
    return order[np.arange(len(order)), chosen]
