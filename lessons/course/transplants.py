"""``transplant``: at the end of a lesson the student's own functions, if there are any, become part of a model."""

from collections.abc import Callable
from types import ModuleType

import numpy as np

from course.assembly import assembled
from course.calls import Trouble, called_with_care
from course.mine import own_or_solution

SHAPE = {"n_layers": 1, "n_heads": 4}
UPDATES, BATCH, LENGTH, SYMBOLS = 60, 16, 5, 10
SECONDS = 60.0
"""Time limit of the gradient, which takes a hundredth of that."""


def transplant(lesson: str) -> None:
    """Count the functions of the model that are yours, and check the gradient of the chain up to this lesson."""
    if lesson not in CHAINS:
        return print(f"transplant: there is one for {', '.join(CHAINS)}.")
    parts, faults = assembled(own_glue=False)
    print(f"yours: {sum(not fault for fault in faults.values())} of {len(faults)}")
    for exercise, fault in sorted(faults.items()):
        if exercise[:2] <= lesson[:2] and fault:
            print(f"  {exercise}: {fault}")
    what, chain, *inputs = CHAINS[lesson](parts, np.random.default_rng(0))
    try:
        error = called_with_care(lambda: gradient_error(parts, chain, inputs), SECONDS)
    except Trouble as trouble:  # of a function that was right on the inputs of its exercise
        return print(f"{what}: WRONG. {trouble}")
    print(f"{what}: relative error of its gradient {error:.1e}: {'right' if error < 1e-6 else 'WRONG'}")
    if lesson[:2] in AFTERWARDS:
        AFTERWARDS[lesson[:2]](parts)


def gradient_error(parts: ModuleType, chain: Callable, inputs: list) -> float:
    """Slope along a random direction: by finite differences against the student's backward functions."""
    rng = np.random.default_rng(1)
    directions = [rng.standard_normal(x.shape) for x in inputs]
    y = chain(*map(parts.Var, inputs)).data
    cotangent = rng.standard_normal(np.shape(y))

    def slope_of(step: float) -> float:
        moved = (parts.Var(x + step * d) for x, d in zip(inputs, directions, strict=True))
        return (cotangent * chain(*moved).data).sum()

    h = 1e-5
    numerical = (slope_of(h) - slope_of(-h)) / (2 * h)
    values = [parts.Var(x) for x in inputs]
    y = chain(*values)
    last = parts.Var((cotangent * y.data).sum(), (y,), lambda grad: (grad * cotangent,))
    grads = parts.grads_of(last, values)
    analytic = sum((grad * d).sum() for grad, d in zip(grads, directions, strict=True))
    return float(abs(numerical - analytic) / abs(numerical))


# -- the chain, lesson by lesson: what it is, a function of Vars, and the arrays to differentiate by -------------------


def linear(parts, rng):
    return "a linear map", parts.project, rng.standard_normal((3, 4)), rng.standard_normal((4, 2))


def two_maps(parts, rng):
    weights = rng.standard_normal((2, 4, 4))
    chain = lambda x, w1, w2: parts.project(x, w1) + parts.project(x, w2)  # noqa: E731
    return "two linear maps and their sum, on your tape", chain, rng.standard_normal((3, 4)), *weights


def to_the_loss(parts, rng):
    targets = np.array([3, 0, 5])

    def chain(x, w):
        logits = parts.project(x, w)
        loss = parts.smoothed_loss(logits.data, targets, 0.1)
        return parts.Var(loss, (logits,), lambda grad: (parts.loss_backward(grad, logits.data, targets, 0.1),))

    return "a linear map and your loss", chain, rng.standard_normal((3, 4)), rng.standard_normal((4, 7))


def attention_of(parts, n_heads):
    def chain(x, *weights):
        return parts.attention(dict(zip("qkvo", weights, strict=True)), x, x, np.tri(len(x.data), dtype=bool), n_heads)

    return chain


def one_head(parts, rng):
    return "causal attention, one head", attention_of(parts, 1), rng.standard_normal((5, 8)), *square(rng)


def square(rng):
    return rng.standard_normal((4, 8, 8)) / np.sqrt(8)


def many_heads(parts, rng):
    return "causal attention, four heads", attention_of(parts, 4), rng.standard_normal((5, 8)), *square(rng)


def residual_and_norm(parts, rng):
    def chain(x, gamma, beta, *weights):
        return parts.norm(x + attention_of(parts, 4)(x, *weights), gamma, beta)

    vectors = rng.standard_normal((2, 8))
    return "attention, residual sum and norm", chain, rng.standard_normal((5, 8)), *vectors, *square(rng)


def model_inputs(parts, rng):
    shapes = parts.shapes_of(9, 1, 8, 12)
    vector = parts.first_vector(shapes, rng)
    return shapes, vector + 0.1 * rng.standard_normal(vector.shape)


def with_views(parts, shapes, chain):
    """``chain`` of the parameters by name, as a function of one Var for each."""
    return lambda *values: chain(dict(zip(shapes, values, strict=True)))


def encoder_layer(parts, rng):
    shapes, vector = model_inputs(parts, rng)
    x = parts.Var(rng.standard_normal((5, 8)))
    mask = np.ones((5, 5), dtype=bool)

    def chain(p):
        return parts.encoder_layer(x, mask, *parts.sublayers(p, "encoder 0", 4, ["self"]))

    own = {name: shape for name, shape in shapes.items() if name.startswith("encoder")}
    arrays = [each.data for name, each in parts.views(vector, shapes).items() if name in own]
    return "an encoder layer", with_views(parts, own, chain), *arrays


def embeddings(parts, rng):
    ids = np.array([3, 8, 3, 5])
    chain = lambda table: parts.logits_of(parts.embed(table, ids), table)  # noqa: E731
    return "embeddings, positions and the shared matrix", chain, rng.standard_normal((9, 8))


def whole_model(parts, rng):
    shapes, vector = model_inputs(parts, rng)

    def chain(p):
        return parts.loss_of(p, np.array([3, 5, 7, 4]), np.array([6, 3, 8]), 0.1, **SHAPE)

    arrays = [each.data for each in parts.views(vector, shapes).values()]
    return "the whole model, from embeddings to loss", with_views(parts, shapes, chain), *arrays


CHAINS = {
    "01_arrays": linear,
    "02_tape": two_maps,
    "03_softmax": to_the_loss,
    "04_attention": one_head,
    "05_heads": many_heads,
    "06_layer_norm": residual_and_norm,
    "07_feed_forward": encoder_layer,
    "08_positions": embeddings,
    "09_transformer": whole_model,
    "11_training": whole_model,
    "12_decoding": whole_model,
    "14_translation": whole_model,
}


# -- and what the model does ------------------------------------------------------------------------------------------


def trained(parts: ModuleType, updates: int) -> tuple[dict, list[float]]:
    """Parameters after some updates on copying, and the losses."""
    schedule, _ = own_or_solution("11_training.schedule")
    rng = np.random.default_rng(0)
    shapes = parts.shapes_of(SYMBOLS + 3, 1, 32, 64)
    vector = parts.first_vector(shapes, rng)
    state, losses = (vector, np.zeros_like(vector), np.zeros_like(vector), 0), []
    for step in range(1, updates + 1):
        pairs = [(x, x) for x in rng.integers(3, SYMBOLS + 3, (BATCH, LENGTH))]
        loss, grad = parts.gradient_of(state[0], shapes, pairs, 0.0, **SHAPE)
        state = parts.update(state, grad, schedule(step, 32, 100))
        losses.append(float(loss))
    return parts.views(state[0], shapes), losses


def loss_curve(parts):
    """60 updates on copying, with a picture in a notebook."""
    _, losses = trained(parts, UPDATES)
    nothing = LENGTH / (LENGTH + 1) * np.log(SYMBOLS)  # the end of a sentence is sure
    print(f"copying, {UPDATES} updates: loss {losses[0]:.2f} to {losses[-1]:.2f}; knowing nothing costs {nothing:.2f}")
    import matplotlib.pyplot as plt

    plt.figure(figsize=(5, 2.5))
    plt.plot(range(1, UPDATES + 1), losses, color="black")
    plt.axhline(nothing, color="gray", linestyle="--", label="knowing nothing about the symbols")
    plt.xlabel("update")
    plt.ylabel("loss (nats a token)")
    plt.legend()
    plt.show()


def copies(parts):
    """Your greedy search on the model after 300 updates."""
    p, _ = trained(parts, 300)
    rng = np.random.default_rng(1)
    unseen = rng.integers(3, SYMBOLS + 3, (20, LENGTH))
    right = sum(list(parts.translate(p, src, 2 * LENGTH, **SHAPE)) == src.tolist() for src in unseen)
    print(f"after 300 updates your greedy search copies {right} of {len(unseen)} unseen sequences")


def alignment_of(parts):
    """What cross-attention looks at while the model copies, by your ``alignment``."""
    p, _ = trained(parts, 300)
    src = np.random.default_rng(1).integers(3, SYMBOLS + 3, LENGTH)
    read, n_heads = np.concatenate([[1], src]), SHAPE["n_heads"]
    memory, x = parts.encode(p, np.append(src, 2), **SHAPE), parts.embed(p["table"], read)
    self_attention, *_, norms = parts.sublayers(p, "decoder 0", n_heads, ["self", "cross"])
    x = norms[0](x + self_attention(x, x, np.tri(len(read), dtype=bool)))
    q, k = x.data @ p["decoder 0 cross q"].data, memory.data @ p["decoder 0 cross k"].data
    seen = parts.weights(parts.split(q, n_heads), parts.split(k, n_heads), np.ones((len(q), len(k)), dtype=bool))
    alignment, _ = own_or_solution("14_translation.alignment")
    print(f"while it writes {src.tolist()} it looks at the source positions {list(map(int, alignment(seen)))}")


AFTERWARDS = {"09": loss_curve, "11": loss_curve, "12": copies, "14": alignment_of}
