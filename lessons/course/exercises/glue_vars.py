"""Exercises of ``my_transformer``, step 1: Var, and the walk back.

What a reader's function makes of Vars is seen as data and gradients.
"""

import numpy as np

from course.calls import Trouble, is_unfilled
from course.compare import kind
from course.exercise import Exercise, Mistake
from solutions import my_transformer as right
from solutions.my_transformer import Var

# -- looking at a Var -------------------------------------------------------------------------------------------------


def gradients_of(y, cotangent, wanted):
    """Gradients of the sum of ``cotangent * y``, by a walk that needs no one's ``grads_of``."""
    order = []

    def visit(value):
        if not hasattr(value, "parents"):
            raise Trouble(
                f"One of the parents is {kind(value)}. Parents are Vars; what gets no gradient is not among them."
            )
        if not isinstance(value.parents, (tuple, list)):
            raise Trouble("The parents of a Var are a tuple, also where there is one: `(x,)`.")
        if not any(value is each for each in order):
            for parent in value.parents:
                visit(parent)
            order.append(value)

    visit(y)
    found = {id(each): np.zeros(np.shape(each.data)) for each in [*order, *wanted]}
    found[id(y)] = cotangent
    for value in reversed(order):
        if value.parents:
            if not callable(value.backward):
                raise Trouble(
                    "A Var with parents needs a `backward`: a function of the gradient, kept under that name."
                )
            grads = value.backward(found[id(value)])
            if not isinstance(grads, (tuple, list)) or len(grads) != len(value.parents):
                raise Trouble(
                    "A `backward` must return a tuple with one gradient for each of its parents, in their order; here "
                    f"there {'is 1 parent' if len(value.parents) == 1 else f'are {len(value.parents)} parents'}."
                )
            for parent, grad in zip(value.parents, grads, strict=True):
                if np.shape(grad) != np.shape(parent.data):
                    raise Trouble(
                        f"A `backward` returned a gradient of shape {np.shape(grad)} for a parent of shape "
                        f"{np.shape(parent.data)}: each gradient has its parent's shape."
                    )
                found[id(parent)] = found[id(parent)] + grad
    return [found[id(each)] for each in wanted]


def seen(y, cotangent, wanted):
    """The data of a Var, then its gradients."""
    if is_unfilled(y):
        return y
    lacking = [name for name in ("data", "parents", "backward") if not hasattr(y, name)]
    if lacking:
        raise Trouble(f"The result must be a Var with data, parents and backward; {kind(y)} has no {lacking[-1]}.")
    if not y.parents:
        raise Trouble("The result has no parents, so no gradient goes on: hand over what it was made of, in a tuple.")
    if np.shape(y.data) != np.shape(cotangent):
        raise Trouble(f"The result's data must have the shape {np.shape(cotangent)}, got {np.shape(y.data)}.")
    return y.data, *gradients_of(y, cotangent, wanted)


def data_and_gradients(*inputs):
    """Names for the parts that ``seen`` returns."""
    return ("data", *(f"grad_{name}" for name in inputs))


# -- 1: Var and grads_of ----------------------------------------------------------------------------------------------


def check_beside_others(x):
    """Refuse a Var that the solutions' functions, which stand in for what is not the reader's yet, could not use."""
    try:
        hash(x)
    except TypeError:
        raise Trouble(
            "A Var must serve as a key of a dict, and yours cannot: it compares data. A dataclass needs `eq=False`."
        ) from None
    try:
        x + Var(np.ones(np.shape(x.data)))
    except (TypeError, AttributeError, AssertionError, ValueError):
        raise Trouble("It must add any Var, also one of the course's own class: use `other.data` as it is.") from None


def through_var(own_var):
    def seen_sum(a, b, cotangent):
        x, y = own_var(a), own_var(b)
        if getattr(x, "__dict__", None) == {} or is_unfilled(x + y):
            return ...
        found = *seen(x + y, cotangent, [x, y]), *seen(x + x, cotangent, [x])
        check_beside_others(x)
        return found

    return seen_sum


def through_grads_of(grads_of):
    def seen_graph(graph, x, w):
        wanted = [Var(x), Var(w)]
        return grads_of(graph(*wanted), wanted)

    return seen_graph


def total(x):
    return Var(x.data.sum(), (x,), lambda grad: (grad * np.ones(x.data.shape),))


def a_chain(x, w):
    return total(right.project(x, w))


def a_residual(x, w):
    return total(right.project(x, w) + x)


def used_again(x, w):
    y = right.project(x, w) + x
    return total(right.project(y, w) + y)


def visited_late(x, w):
    y = x + right.project(x, w)
    return total(y + right.project(right.project(x, w) + y, w))


def forgetting(loss, wanted):
    """The last path alone, where the sum over all belongs."""
    found = {loss: 1.0}

    def walk(value):
        for parent, grad in zip(value.parents, value.backward(found[value]) if value.parents else (), strict=True):
            found[parent] = grad
        for parent in value.parents:
            walk(parent)

    walk(loss)
    return [found[each] for each in wanted]


def too_soon(loss, wanted):
    """Breadth first: a value hands its gradient on before all of it has arrived."""
    found, order = {loss: 1.0}, [loss]
    for value in order:
        for parent, grad in zip(value.parents, value.backward(found[value]) if value.parents else (), strict=True):
            order += [] if parent in found else [parent]
            found[parent] = found.get(parent, 0.0) + grad
    return [found[each] for each in wanted]


def visited_again(loss, wanted):
    """A value goes on as often as it is used, each time with all of its gradient."""
    order = []

    def visit(value):
        for parent in value.parents:
            visit(parent)
        order.append(value)

    visit(loss)
    place = {value: i for i, value in enumerate(order)}
    tape = [([place[each] for each in value.parents], place[value], value.backward) for value in order if value.parents]
    found = right.gradients(tape, len(order))
    return [found[place[each]] for each in wanted]


class OneParent(Var):
    def __add__(self, other):
        return OneParent(self.data + other.data, (self, other), lambda grad: (grad, 0.0 * grad))


class Factors(Var):
    def __add__(self, other):
        return Factors(self.data + other.data, (self, other), lambda grad: (grad * other.data, grad * self.data))


class Halves(Var):
    def __add__(self, other):
        return Halves(self.data + other.data, (self, other), lambda grad: (grad / 2, grad / 2))


VAR = Exercise(
    "my_transformer.Var",
    lambda rng: (tuple(rng.standard_normal((3, *shape))) for shape in ((2, 3), (4, 2))),
    reference=Var,
    tested="sums of two values and of a value with itself, data and gradients",
    mistakes=(
        Mistake("The second parent gets no gradient: a sum hands its gradient on to both, whole.", OneParent),
        Mistake("That is the backward of a product. A sum hands its gradient on unchanged.", Factors),
        Mistake("A sum does not divide its gradient: each parent gets all of it.", Halves),
    ),
    parts=(*data_and_gradients("a", "b"), "data of a + a", "grad_a of a + a"),
    through=through_var,
)

GRADS_OF = Exercise(
    "my_transformer.grads_of",
    lambda rng: (
        (graph, rng.standard_normal((2, 3)), rng.standard_normal((3, 3)))
        for graph in (a_chain, a_residual, used_again, visited_late)
    ),
    reference=right.grads_of,
    tested="a chain, a residual sum, values used two and three times",
    mistakes=(
        Mistake("A value that is used twice gets the sum of its gradients; here the last one replaces it.", forgetting),
        Mistake("A value hands its gradient on before all of it has come: first order the values.", too_soon),
        Mistake("A value that is used twice stands on the tape twice: visit each value once.", visited_again),
    ),
    through=through_grads_of,
)
