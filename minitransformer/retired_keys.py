"""Keys of older configs: their new names, or what to do without them, for the error message."""

RETIRED_KEYS = {
    "model.kernels": "execution.kernels",
    "training.device": "execution.device",
    "training.precision": "execution.precision",
    "training.reduction": "training.deterministic_reduce (fixed is now true, fast is false)",
    "training.deadline": "training.timeout",
}
"""``section.key`` of a retired key: what to write instead."""

IN_EXAMPLES = 'python examples/paper/run.py COMMAND knows model.kind = "{}" with its options'
CONVOLUTION, RESTRICTED = (IN_EXAMPLES.format(kind) for kind in ("convolution", "restricted_attention"))

REMOVED_KEYS = {
    "model.encoder": ("self_attention", CONVOLUTION),
    "model.kernel_size": (3, CONVOLUTION),
    "model.dilation": (1, CONVOLUTION),
    "model.attention_window": (0, RESTRICTED),
    "execution.cuda_graphs": (False, "leave it out: no card has shown what CUDA graphs gain (benchmarks/notes.md)"),
    "training.communicator": ("auto", "leave it out: what starts the ranks and the device decide, see docs/ranks.md"),
}
"""``section.key`` of a key that has gone: its default, at which it is passed over, and what to do instead of others."""
