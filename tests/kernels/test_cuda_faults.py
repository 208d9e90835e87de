"""Faults that a GPU would silently accept are caught by the emulation: in small kernels, and in every real one."""

import re
import sys

import numpy as np
import pytest
from cases import booleans, case, causal
from cuda_checks import KERNEL_CASES, check_kernel
from cuda_on_cpu import kernels
from cuda_on_cpu.planted import Planted
from slow_philox import slow_mask

from minitransformer.kernels import CountedMask
from minitransformer.kernels.cupy import launch, sums
from minitransformer.kernels.cupy.adam import adam
from minitransformer.kernels.cupy.cast import scaled_copy
from minitransformer.kernels.cupy.source import FOLDER, options_of, source_of

pytestmark = pytest.mark.cuda  # needs packages of the dev extra

BROKEN_KERNELS = {
    "a barrier that half of the threads never reach": ("divergent", "if (threadIdx.x < 16) __syncthreads();"),
    "two barriers, and each thread waits at one": (
        "divergent",
        """if (threadIdx.x < 16) __syncthreads();
        else __syncthreads();""",
    ),
    "a shuffle of half a warp": ("divergent", "if (threadIdx.x < 16) warp_sum(1);"),
    "a thread that waits for ever": ("endless", "while (x[0] == 0) x[threadIdx.x + 1];"),
    "a write before the array": (r"beside: thread 0 writes x\[-1\] of 64", "x[-1] = 1;"),
    "a write behind the array": (r"beside: thread 0 writes x\[64\] of 64", "x[64] = 1;"),
    "a read behind the array": ("beside: thread 0 reads x", "x[0] = x[64];"),
    "a write into what is const": ("beside: thread 0 writes y", "const_cast<ACC *>(y)[0] = 1;"),
    "an index beyond shared memory, into other shared memory": (
        r"beside: thread 63 writes one\[64\] of 64",
        "__shared__ ACC one[64], other[64]; *(one + threadIdx.x + 1) = other[threadIdx.x] = x[0];",
    ),
    "an index beyond a row of shared memory": (
        "beside: thread 63 has index 64",
        "__shared__ ACC one[2][64]; one[0][threadIdx.x + 1] = x[0];",
    ),
    "shared memory that nobody has written": (
        r"uninitialized: thread 32 reads one\[32\]",
        """__shared__ ACC one[64];
        if (threadIdx.x < 32) one[threadIdx.x] = 1;
        __syncthreads();
        x[threadIdx.x] = one[threadIdx.x];""",
    ),
    "shared memory that the block before has written": (
        r"block \(1, 0, 0\): uninitialized: thread 0 reads one\[0\]",
        "__shared__ ACC one[64]; if (blockIdx.x == 0) one[threadIdx.x] = 1; else one[threadIdx.x] += 1;",
    ),
    "two threads that write to one address": ("race: thread 1 writes x", "x[0] = threadIdx.x / 32;"),
    "two blocks that write to one address": ("race.*another block wrote", "x[threadIdx.x] = blockIdx.x;"),
    "a block that writes what another has read": (
        "race.*another block read",
        "if (blockIdx.x || x[threadIdx.x] > 0) x[threadIdx.x] = 1;",
    ),
    "no barrier between writing and reading": (
        "race: thread 1 reads one",
        "__shared__ ACC one[64]; one[threadIdx.x] = 1; x[threadIdx.x] = one[threadIdx.x / 2];",
    ),
    "no barrier before memory is used again": (
        "race: thread 0 writes one.*another thread read",
        """__shared__ ACC one[64];
        for (int i = 0; i < 2; ++i) {
            one[threadIdx.x] = warp_sum(i);
            __syncthreads();
            x[threadIdx.x] = one[(threadIdx.x + 32) % 64];
        }""",
    ),
    "a shuffle in the place of a barrier": (
        r"race: thread 0 reads one\[1\]",
        """__shared__ ACC one[64];
        one[threadIdx.x] = warp_sum(1);
        x[threadIdx.x] = warp_sum(2) + one[threadIdx.x ^ 1];""",
    ),
    "a vector at an odd address": ("misaligned", "ACC values[8] = {}; store8(x + 1, values, 0, 8, true);"),
}


@pytest.fixture(scope="module")
def broken_kernels():
    head = 'extern "C" __global__ void faulty_{}(ACC *x, const ACC *y)'
    codes = [f"{head.format(i)} {{ {code} }}" for i, (_, code) in enumerate(BROKEN_KERNELS.values())]
    common = source_of("cast").split("// From the type")[0]
    return kernels.built("\n".join([common, *codes]), options_of("float32"))


@pytest.mark.parametrize("fault", BROKEN_KERNELS)
def test_a_kernel_with_this_fault_is_caught(fault, device, broken_kernels):
    number, parameters = list(BROKEN_KERNELS).index(fault), {"x": "ACC *", "y": "const ACC *"}
    run = kernels.launcher(broken_kernels, f"faulty_{number}", parameters, "float32")
    with pytest.raises(AssertionError, match=BROKEN_KERNELS[fault][0]):
        run((2,), (64,), (np.zeros(64, np.float32), np.zeros(64, np.float32)))


RULES = {
    "attention": ["attention"],
    "embedding": ["positioned_embedding"],
    "feed_forward": ["feed_forward", "linear"],
    "norm": ["layer_norm", "residual_dropout_norm"],
    "projection_loss": ["projection_loss"],
    "dropout": ["residual_dropout"],
}
FULL = (2, 2, 32, 16)  # a head's only tile, without a free place
MORE_CASES = [
    case("attention", "a full tile", FULL, FULL, FULL),
    case("attention", "tiles of 16 in float64", (1, 1, 20, 32), (1, 1, 33, 32), (1, 1, 33, 32), mask=causal(33)[:20]),
    case("feed_forward", "many rows", (20, 16), (16, 40), (40,), (40, 16), (16,), keep=booleans((20, 40)), p_drop=0.3),
    *(
        case("positioned_embedding", str(ids), (3, width), (len(ids), width), ids=np.array(ids))
        for width in (17, 24)
        for ids in ([0] * 32 + [1] * 33 + [2] * 32, [0] * 64 + [1] * 32, [0] * 31 + [1] * 66 + [2], [0] + [1] * 64)
    ),
    case(
        "projection_loss",
        "large logits in float64",
        *((5, 8), (23, 8)),
        draw=lambda rng, shape: 20 * rng.standard_normal(shape),
        targets=np.arange(5),
        label_smoothing=0.1,
    ),
    case("projection_loss", "23 subwords", (5, 8), (23, 8), targets=np.arange(5), label_smoothing=0.1),
]
FEW_BLOCKS = [("norm", "PARTS"), ("feed_forward", "PARTS"), ("adam", "MAX_BLOCKS"), ("sums", "MAX_BLOCKS")]
"""What is set to 2, so that each block has several rounds."""
SLOW = ("every frequency", "long", "a row of 4,104")  # and their places are met by smaller cases
NO_DIFFERENCE = {
    "whole && column < width, bound - 1": "both are multiples of eight",
    "whole && column < width, bound + 1": "in most kernels threads without a group of the row have returned",
    "if (row >= TILE) return;, bound - 1": "both are multiples of 16",
    "k < DEPTH; k += 16, bound - 1": "both are multiples of 16",
    "i < D_V && query < n_queries, bound - 1": "both are multiples of eight",
    "first_key < n_keys; , bound + 1": "all is masked in the tile after the last one, and such a tile is skipped",
    "first < n_rows; first += stride, bound + 1": "rows after the last one are taken as empty",
    "y < blockDim.y; ++y, bound + 1": "a turn in which no thread has anything to add",
    "if (start >= n) return;, bound + 1": "load8 and store8 leave alone what is beyond a row",
    "if (column >= width, bound + 1": "load8 and store8 leave alone what is beyond a row",
    "end = first + TILE < n_rows, bound + 1": "both are n_rows where they differ",
    "highest = maxima[warp], bound - 1": "any of the maxima keeps exp from overflow",
    "start + 8 <= , bound - 1": "the last eight are then moved one by one",
    "bool whole = start + 8 <= , bound + 1": "the place after a row of logits is padding, and nobody reads it",
    "add_parts: bound + 1 in load8, bound + 1": "what is read after a row is not stored, and the last row is not read",
    "cross_entropy: bound + 1 in store8, bound + 1": "the place after a row of logits is padding, and nobody reads it",
    "; start += stride, bound + 1": "load8 and store8 leave alone what is beyond a row",
    "cross_entropy: bound + 1 in load8, bound + 1": "NaN of the padding makes the mean be summed again; "
    "maximum and sum test their own bound",
}
"""Changes after which a kernel does the same, by what is in the line, with the reason."""


def other_checks(file: str, rng):
    """Of the kernels that no rule launches by itself: found and wanted."""
    w, m, v, x = rng.random((4, 1100)).astype(np.float32)
    if file == "adam":
        mean, square = 0.9 * m + 0.1 * x, 0.98 * v + 0.02 * x * x
        wanted = w - 0.1 * mean / (np.sqrt(square) + 1e-9)
        adam(w, m, v, x, beta1=0.9, beta2=0.98, eps=1e-9, step_size=0.1, inv_sqrt_correction=1.0)
        yield np.stack([w, m, v]), np.stack([wanted, mean, square])
    if file == "cast":
        for n in (300, 297, 296):
            yield scaled_copy(x[:n], w[:1], np.float32), x[:n] * w[0]
    if file == "dropout":
        mask = CountedMask(5, 3, (7, 13), 0.9)
        yield mask.array(sums.get_array_module()), slow_mask(mask)
    if file == "projection_loss":  # with numbers between the rows of logits, where else NaN would be
        logits, targets, losses = np.full((3, 64), 5.0, np.float32), np.array([1, 22, 0]), np.empty((3, 2))
        logits[:, :23] = rng.standard_normal((3, 23))
        log_z = np.log(np.exp(logits[:, :23].astype(float)).sum(axis=1))
        nll, uniform = log_z - logits[range(3), targets], log_z - logits[:, :23].mean(axis=1)
        arguments = (logits, targets, losses, 23, 64, 0.1, -1, False, 1.0)
        launch.launch(file, "cross_entropy", (3,), (512,), arguments, "float32")
        yield losses, np.stack([0.9 * nll + 0.1 * uniform, nll], axis=1)
    if file == "sums":
        yield sums.sum_of_squares(x), (x.astype(np.float64) ** 2).sum()
        for array in (rng.random((70, 40)), rng.random((1100, 3))):
            yield sums.sum_rows(array), array.sum(axis=0)


def jobs_of(file: str, device, relative_error):
    """What launches the kernels of a file, and compares what they compute."""

    def compare():
        for found, wanted in other_checks(file, np.random.default_rng(1)):
            assert relative_error(found, wanted) < 1e-6

    yield compare
    for each in [*KERNEL_CASES, *MORE_CASES]:
        if each.rule.name in RULES.get(file, ()) and each.what not in SLOW:
            for dtype in ("float64",) if "float64" in each.what else ("bfloat16", "float32"):
                yield lambda each=each, dtype=dtype: check_kernel(
                    each, dtype, device, np.random.default_rng(1), relative_error
                )


FILES = sorted(path.stem for path in FOLDER.glob("*.cu"))
SECONDS = {"attention": pytest.mark.slow}


@pytest.mark.parametrize("file", [pytest.param(file, marks=SECONDS.get(file, ())) for file in FILES])
def test_every_fault_that_is_planted_in_a_kernel_is_caught(file, device, monkeypatch, relative_error):
    """In each kernel, and by which check: pytest -rP shows it."""
    planted, jobs, caught, seen = Planted(file), [], {}, set()
    monkeypatch.setattr(launch, "compile_kernel", planted.compile_kernel)
    for module, name in FEW_BLOCKS:
        monkeypatch.setattr(sys.modules[f"minitransformer.kernels.cupy.{module}"], name, 2)
    for job in jobs_of(file, device, relative_error):
        planted.met = set()
        job()
        seen |= {number for _, number in planted.met}
        jobs.append((job, planted.met))
    used = {planted.faults[number].function for number in seen}
    assert [fault for i, fault in enumerate(planted.faults) if i not in seen and fault.function in used] == []
    met = set().union(*(each for _, each in jobs))
    for job, places in jobs:
        for planted.awake in sorted(places - caught.keys()):
            try:
                job()
            except AssertionError as error:
                check = re.search(r"block \(.*?\): (\w+)", str(error))
                caught[planted.awake] = check[1] if check else "result"
    for (kernel, number), check in sorted(caught.items()):
        print(f"{kernel}: {planted.faults[number]}  -> {check}")
    missed = [f"{kernel}: {planted.faults[number]}" for kernel, number in sorted(met - caught.keys())]
    explained = [words.rsplit(", ", 1) for words in NO_DIFFERENCE]
    missed = [fault for fault in missed if not any(line in fault and kind in fault for line, kind in explained)]
    assert not missed, "\n".join(missed)
    by_result = {planted.faults[number] for (_, number), check in caught.items() if check == "result"}
    assert not [fault for fault in by_result if "barrier" in fault.kind]
