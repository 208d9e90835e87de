"""The key-value cache of restricted self-attention: what has left the window is forgotten  [sec. 4]."""

from minitransformer.autograd import Tensor
from minitransformer.nn.cache import KeyValueCache


class WindowedCache(KeyValueCache):
    """As `KeyValueCache`, for one new position at a time, which attends to ``window`` positions before it and itself.

    Its memory and the time of a step do not grow with the length.
    """

    def __init__(self, cache: KeyValueCache, window: int):
        vars(self).update(vars(cache), window=window)

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the newest keys and values, (R, H, 1, d); returns the window's, (R, H, N, d), N <= window + 1."""
        pair = super().append(layer, key, value)
        self.layers[layer] = tuple(each.data[:, :, -self.window - 1 :] for each in pair)
        keys, values = map(Tensor, self.layers[layer])
        return keys, values
