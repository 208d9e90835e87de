"""The attention of all layers and heads as one interactive HTML page, which needs no network and no library."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minitransformer.errors import DataError
from minitransformer.figures.attention_lines import head_colors
from minitransformer.figures.attention_map import check_attention

TEMPLATE = Path(__file__).with_name("attention_page.html")
MAX_WEIGHTS = 4_000_000
"""Maximum number of weights on a page, a byte each: more would make a file of many megabytes."""


@dataclass(frozen=True)
class Attentions:
    """The attentions of one kind, such as the decoder's self-attention, and what attends to what.

    layers: the weights of each layer that has such an attention, (H, Tq, Tk), by its number, counted from 1
    queries: Tq labels   keys: Tk labels
    """

    label: str
    query_label: str
    queries: Sequence[str]
    key_label: str
    keys: Sequence[str]
    layers: Mapping[int, np.ndarray]


def attention_page(
    kinds: Mapping[str, Attentions], *, title: str, kind: str, layer: int, heads: Sequence[int] | None = None
) -> str:
    """The page's HTML. Weights are rounded to multiples of 1/255.

    kind, layer, heads: what is shown first; heads are counted from 1, None: all

    The text of the sentences appears only in JSON, where no ``<`` is left, and the page's content security policy
    allows no other script and no loading of anything.

    Raises:
        DataError: labels do not match the shape of the weights, a head does not exist, or the page would be too large.
    """
    n_weights = sum(weights.size for each in kinds.values() for weights in each.layers.values())
    if n_weights > MAX_WEIGHTS:
        raise DataError(
            f"plot attention: a page must have at most {MAX_WEIGHTS:,} weights, got {n_weights:,}; shorten the sentence"
        )
    n_heads = len(kinds[kind].layers[layer])
    heads = check_attention(kinds[kind].layers[layer], kinds[kind].keys, kinds[kind].queries, heads)
    data = {
        "title": title,
        "colors": head_colors(n_heads),
        "kind": kind,
        "layer": str(layer),
        "heads": [head - 1 for head in heads],
        "kinds": {name: vars(each) | {"layers": _encode_weights(each.layers)} for name, each in kinds.items()},
    }
    template = TEMPLATE.read_text(encoding="utf-8")
    script = template.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # The data come last, so that a subword that looks like a placeholder is not replaced.
    return template.replace("{{script}}", f"sha256-{digest}").replace(
        "{{data}}", json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"), 1
    )


def _encode_weights(layers: Mapping[int, np.ndarray]) -> dict[int, str]:
    """Each layer's weights as bytes, 255 for a weight of 1, in base64."""
    return {
        number: base64.b64encode(np.rint(255 * weights).astype(np.uint8).tobytes()).decode()
        for number, weights in layers.items()
    }
