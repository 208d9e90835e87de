"""Element by element: arithmetic with broadcasting, powers, exponentials, ReLU, tanh."""

from minitransformer.backend import Array, get_array_module
from minitransformer.ops.rule import Rule


def unbroadcast(grad: Array, shape: tuple[int, ...]) -> Array:
    """Sum ``grad`` back to ``shape``: an input that broadcasting repeated gets the sum over its copies."""
    if grad.shape == shape:
        return grad
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))  # axes that broadcasting put in front
    stretched = tuple(i for i, size in enumerate(shape) if size == 1 and grad.shape[i] != 1)
    return grad.sum(axis=stretched, keepdims=True) if stretched else grad


def add_forward(a: Array, b: Array) -> tuple[Array, tuple]:
    """y = a + b"""
    return a + b, (a.shape, b.shape)


def add_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_a = grad_y,  grad_b = grad_y"""
    a_shape, b_shape = saved
    return unbroadcast(grad_y, a_shape), unbroadcast(grad_y, b_shape)


def subtract_forward(a: Array, b: Array) -> tuple[Array, tuple]:
    """y = a - b"""
    return a - b, (a.shape, b.shape)


def subtract_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_a = grad_y,  grad_b = -grad_y"""
    a_shape, b_shape = saved
    return unbroadcast(grad_y, a_shape), unbroadcast(-grad_y, b_shape)


def multiply_forward(a: Array, b: Array) -> tuple[Array, tuple]:
    """y = a * b"""
    return a * b, (a, b)


def multiply_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_a = grad_y * b,  grad_b = grad_y * a"""
    a, b = saved
    return unbroadcast(grad_y * b, a.shape), unbroadcast(grad_y * a, b.shape)


def divide_forward(a: Array, b: Array) -> tuple[Array, tuple]:
    """y = a / b"""
    y = a / b
    return y, (y, a.shape, b)


def divide_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_a = grad_y / b,  grad_b = -grad_y * y / b"""
    y, a_shape, b = saved
    grad_a = grad_y / b
    return unbroadcast(grad_a, a_shape), unbroadcast(-grad_a * y, b.shape)


def negative_forward(x: Array) -> tuple[Array, tuple]:
    """y = -x"""
    return -x, ()


def negative_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = -grad_y"""
    return (-grad_y,)


def power_forward(x: Array, *, exponent: float) -> tuple[Array, tuple]:
    """y = x ** exponent"""
    return x**exponent, (x, exponent)


def power_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y * exponent * x ** (exponent - 1)"""
    x, exponent = saved
    if exponent == 0:  # y = 1 everywhere, but 0 * x^-1 is NaN at x = 0
        return (get_array_module(x).zeros_like(grad_y),)
    return (grad_y * exponent * x ** (exponent - 1),)


def exp_forward(x: Array) -> tuple[Array, tuple]:
    """y = e ** x"""
    y = get_array_module(x).exp(x)
    return y, (y,)


def exp_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y * y"""
    (y,) = saved
    return (grad_y * y,)


def log_forward(x: Array) -> tuple[Array, tuple]:
    """y = ln x"""
    return get_array_module(x).log(x), (x,)


def log_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y / x"""
    (x,) = saved
    return (grad_y / x,)


def relu_forward(x: Array) -> tuple[Array, tuple]:
    """y = max(0, x)      [inside eq. 2]"""
    xp = get_array_module(x)
    y = xp.maximum(x, xp.zeros(x.shape[-1:], x.dtype))  # a row of zeros: with a scalar NumPy takes twice as long
    return y, (y,)


def relu_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y * (y > 0)"""
    (y,) = saved
    return (grad_y * (y > 0),)


def tanh_forward(x: Array) -> tuple[Array, tuple]:
    """y = tanh x"""
    y = get_array_module(x).tanh(x)
    return y, (y,)


def tanh_backward(grad_y: Array, saved: tuple) -> tuple[Array, ...]:
    """grad_x = grad_y * (1 - y^2)"""
    (y,) = saved
    return (grad_y * (1.0 - y * y),)


add = Rule("add", add_forward, add_backward)
subtract = Rule("subtract", subtract_forward, subtract_backward)
multiply = Rule("multiply", multiply_forward, multiply_backward)
divide = Rule("divide", divide_forward, divide_backward)
negative = Rule("negative", negative_forward, negative_backward)
power = Rule("power", power_forward, power_backward)
exp = Rule("exp", exp_forward, exp_backward)
log = Rule("log", log_forward, log_backward)
relu = Rule("relu", relu_forward, relu_backward)
tanh = Rule("tanh", tanh_forward, tanh_backward)
