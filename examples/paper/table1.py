"""Table 1 of the paper measured: time, memory, sequential operations and path length of four kinds of layers.

    python -m examples.paper.table1            all of it (two minutes on one core), into results/table1.*
    python -m examples.paper.table1 --quick    small sizes; writes nothing
    python -m examples.paper.table1 --report   rewrite the report from results/table1.json

As in the paper, a layer maps n vectors of width d to n others. Here it is only the part that connects positions: scaled
dot-product attention over all positions (one head, no projections), a GRU, a convolution with kernel size k, or
attention restricted to r neighbors, half of them on each side. Time and memory are those of forward and backward
together.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benchmarks.common.matrix_products import products_of
from examples import report_errors
from examples.paper.crossing import crossing as crossing_of
from examples.paper.models.convolution import convolution
from examples.paper.models.restricted_attention import restricted_attention
from examples.paper.program import MAX_RESULTS, showing, write_report
from examples.paper.table1_report import draw_growth, markdown
from examples.report import machine_facts, time_and_memory
from minitransformer import kernels
from minitransformer.allocator import keep_freed_memory
from minitransformer.autograd import Tensor, functions
from minitransformer.autograd.tensor import apply
from minitransformer.cli.common import writable_file
from minitransformer.cli.main import Parser
from minitransformer.files import read_bounded, write_text
from minitransformer.workers import limit_threads

RESULTS = Path(__file__).parent / "results"
KINDS = ("self-attention", "recurrent", "convolutional", "restricted")
BATCH, KERNEL, NEIGHBORS = 4, 3, 32
LENGTHS, WIDTH = (64, 128, 256, 512, 1024, 2048, 4096), 256
WIDTHS, LENGTH = (64, 128, 256, 512, 1024, 2048), 256
NEIGHBORHOODS, OF_LENGTH, OF_WIDTH = (32, 64, 128, 256, 512, 1024), 4096, 64
PATH_LENGTHS = (14, 41, 122)
"""n - 1 is the reach of 3, 4 and 5 convolutions of kernel size 3 whose dilation triples: 1 + 3 + 9 + ..."""

Layer = Callable[[Tensor], Tensor]


def layer(kind: str, d: int, seed: int = 0, dtype: str = "float32", dilation: int = 1, r: int = NEIGHBORS) -> Layer:
    """A layer of this kind, (B, n, d) to (B, n, d), with random weights."""
    rng = np.random.default_rng(seed)

    def weights(*shape: int) -> Tensor:
        return Tensor((rng.standard_normal(shape) / d**0.5).astype(dtype), requires_grad=True)

    if kind == "self-attention":
        return lambda x: functions.attention(x, x, x)
    if kind == "restricted":
        return lambda x: apply(restricted_attention, x, x, x, window=(r // 2, r // 2))
    if kind == "convolutional":
        kernel, bias = weights(KERNEL, d, d), weights(d)
        return lambda x: apply(convolution, x, kernel, bias, dilation=dilation)
    w_x, w_h, b_x, b_h = weights(d, 3 * d), weights(d, 3 * d), weights(3 * d), weights(3 * d)
    return lambda x: functions.gru(x, Tensor(np.zeros((len(x.data), d), dtype)), w_x, w_h, b_x, b_h)


def measure(kind: str, n: int, d: int, r: int, rounds: int) -> dict[str, float]:
    """Seconds and peak bytes of forward and backward."""
    apply_layer = layer(kind, d, r=r)
    x, grad_y = np.random.default_rng(0).standard_normal((2, BATCH, n, d), np.float32)

    def run() -> None:
        apply_layer(Tensor(x, requires_grad=True)).backward(grad_y)

    return time_and_memory(run, rounds)


def growth(name: str, sizes: Sequence[int], rounds: int) -> dict:
    """Measurements of each kind of layer that depends on ``name``, which is n, d or r, as it grows."""
    fixed = {"n": {"d": WIDTH, "r": NEIGHBORS}, "d": {"n": LENGTH, "r": NEIGHBORS}}
    fixed["r"] = {"n": OF_LENGTH, "d": OF_WIDTH}
    found = {}
    for kind in KINDS if name != "r" else ["restricted"]:
        bar = tqdm(sizes, desc=f"{kind}, {name}", unit="size")
        rows = [measure(kind, **fixed[name], **{name: size}, rounds=rounds) for size in bar]
        found[kind] = {key: [row[key] for row in rows] for key in ("seconds", "bytes")}
    return {"sizes": list(sizes), "fixed": fixed[name], "layers": found}


def crossing(sizes: Sequence[int], slow_later: Sequence[float], other: Sequence[float]) -> float | None:
    """The size from which the first takes longer, by straight lines in a log-log plot; None if it always does, or does
    not at the largest size."""
    found = crossing_of(np.array(sizes), np.log(slow_later) - np.log(other))
    return None if found == sizes[0] else found


def sequential_products(kind: str, n: int) -> int:
    """The longest chain of matrix products each of which needs the one before, in the plain rule for n positions."""
    apply_layer, x = layer(kind, 8), np.ones((2, n, 8), np.float32)
    with kernels.mode("simple"):
        return max(product.depth for product in products_of(lambda array: apply_layer(Tensor(array)), x))


def input_gradient(kind: str, n: int, n_layers: int, t: int, dilated: bool = False, r: int = NEIGHBORS) -> np.ndarray:
    """The largest absolute value of d y_t / d x_s in a stack of layers, for every s, (n,): 0 if there is no path

    dilated: the dilation of convolutions grows by the factor k from layer to layer
    """
    d = 4
    x = Tensor(np.random.default_rng(1).standard_normal((1, n, d)), requires_grad=True)
    y = x
    for i in range(n_layers):
        y = layer(kind, d, seed=i, dtype="float64", dilation=KERNEL**i if dilated else 1, r=r)(y)
    y[:, t].sum().backward()
    return np.abs(x.grad[0]).max(axis=-1)


def layers_needed(kind: str, n: int, dilated: bool = False, r: int = NEIGHBORS) -> int:
    """How many layers it takes until the last output depends on the first input, by the gradient."""
    return next(n_layers for n_layers in range(1, n) if input_gradient(kind, n, n_layers, n - 1, dilated, r)[0] != 0)


def paths() -> dict:
    """Layers needed at growing lengths."""
    r = 8
    cases = [*((kind, kind, False) for kind in KINDS), ("convolutional, dilated", "convolutional", True)]
    needed = {name: [layers_needed(kind, n, dilated, r) for n in PATH_LENGTHS] for name, kind, dilated in cases}
    return {"lengths": PATH_LENGTHS, "r": r, "layers": needed}


@report_errors
def main() -> int:
    parser = Parser(prog="python -m examples.paper.table1", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the three smallest sizes; writes nothing")
    parser.add_argument("--report", action="store_true", help="rewrite the report from results/table1.json")
    arguments = parser.parse_args()
    quick = arguments.quick
    if arguments.report:
        with showing(RESULTS / "table1.json"):
            result = json.loads(read_bounded(RESULTS / "table1.json", MAX_RESULTS))
            write_report(RESULTS / "table1.json", markdown(result), draw_growth(result))
        return 0
    if not quick:
        writable_file(RESULTS / "table1.json")
    keep_freed_memory()
    sizes, rounds = slice(3) if quick else slice(None), 1 if quick else 5
    with limit_threads(1):
        result = {
            "machine": machine_facts() | {"threads": 1},
            "batch": BATCH,
            "k": KERNEL,
            "n": growth("n", LENGTHS[sizes], rounds),
            "d": growth("d", WIDTHS[sizes], rounds),
            "r": growth("r", NEIGHBORHOODS[sizes], rounds),
        }
    n = result["n"]
    seconds = {kind: n["layers"][kind]["seconds"] for kind in KINDS}
    n["crossing"] = crossing(n["sizes"], seconds["self-attention"], seconds["recurrent"])
    result["products"] = {kind: [sequential_products(kind, n) for n in PATH_LENGTHS] for kind in KINDS}
    result["paths"] = paths()
    text = markdown(result)
    if quick:
        print(text)
        return 0
    write_text(RESULTS / "table1.json", json.dumps(result, indent=1) + "\n")
    write_report(RESULTS / "table1.json", text, draw_growth(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
