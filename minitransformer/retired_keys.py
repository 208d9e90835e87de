"""Keys that configs no longer have and what to do instead, for the error message; docs/changes.md lists them too."""

IN_EXAMPLES = 'python -m examples.paper.run COMMAND knows model.kind = "{}" with its options'
CONVOLUTION, RESTRICTED = (IN_EXAMPLES.format(kind) for kind in ("convolution", "restricted_attention"))

RETIRED_KEYS = {
    "model.kernels": (None, "write execution.kernels"),
    "training.device": (None, "write execution.device"),
    "training.precision": (None, "write execution.precision"),
    "training.reduction": (None, "write training.deterministic_reduce (fixed is now true, fast is false)"),
    "training.deadline": (None, "write training.timeout"),
    "model.encoder": ("self_attention", CONVOLUTION),
    "model.kernel_size": (3, CONVOLUTION),
    "model.dilation": (1, CONVOLUTION),
    "model.attention_window": (0, RESTRICTED),
    "execution.cuda_graphs": (False, "leave it out: no card has shown what CUDA graphs gain (benchmarks/notes.md)"),
    "training.overlap": (True, "leave it out: no gain from summing during backward was measured (benchmarks/notes.md)"),
    "training.communicator": ("auto", "leave it out: what starts the ranks and the device decide (docs/ranks.md)"),
}
"""``section.key``: the value at which it is ignored (None: never), and what to do instead."""
