"""`loss_and_backward` captured as CUDA graphs and replayed, which frees the host from launching kernel by kernel."""

from dataclasses import replace

import numpy as np

from minitransformer.autograd import GradientSink, Tensor
from minitransformer.autograd.anomaly import is_detecting
from minitransformer.errors import BackendError, ConfigError, quoted
from minitransformer.kernels import kept_copy
from minitransformer.kernels.cupy.graph import GraphPool
from minitransformer.kernels.cupy.masks import mixed_key
from minitransformer.kernels.precision import has_plain_rules
from minitransformer.kernels.profile import current as current_profile
from minitransformer.models import Model
from minitransformer.nn import DropoutMasks, Gradients
from minitransformer.text import Batch
from minitransformer.training.accumulation import loss_and_backward


class GraphedLoss:
    """`loss_and_backward` of a model on a GPU, captured as a CUDA graph for each shape of a micro-batch.

    A shape runs kernel by kernel the first time, is captured the second time, and replayed from then on: the same
    kernels on the same values, the same bits. What cannot be captured runs kernel by kernel: an update that is profiled
    or searched for NaN, and gradients that are sent to other ranks while backward still runs.

    Raises:
        ConfigError: the model is on the CPU, or has rules without a CUDA kernel.
        BackendError (when called): a shape cannot be captured.
    """

    def __init__(self, model: Model):
        for wrong, where in (
            (model.xp is np, "on the CPU"),
            (model.kernel_mode == "simple", 'with execution.kernels = "simple"'),
            (has_plain_rules(model.config), "with recurrent layers, convolutions or restricted attention"),
        ):
            if wrong:
                raise ConfigError(f"execution.cuda_graphs must be false {where}, got true; change one of the two")
        self._model, self._pool = model, GraphPool(model.xp)
        self._graphs: dict[tuple, CapturedLoss | None] = {}  # None: the shape was seen once
        self._copy = None

    def __call__(
        self, batch: Batch, dropout: DropoutMasks, grad_loss: float, into: GradientSink | None = None
    ) -> tuple[Tensor, Tensor]:
        if not isinstance(into, Gradients) or current_profile.get() is not None or is_detecting():
            return loss_and_backward(self._model, batch, dropout, grad_loss, into)
        copy = kept_copy(self._model.parameters.data)
        if copy is not self._copy:  # captured kernels read the one before
            self._graphs.clear()
            self._copy = copy
        key = (batch.src.shape, batch.tgt_in.shape, into, frozenset(into.written))
        if key not in self._graphs:
            results = self._pool.warm_up(lambda: loss_and_backward(self._model, batch, dropout, grad_loss, into))
            self._graphs[key] = None
            return results
        if self._graphs[key] is None:
            self._graphs[key] = CapturedLoss(self._model, batch, into, self._pool)
        return self._graphs[key].replay(batch, dropout, grad_loss)


class CapturedLoss:
    """The graph of one shape, and its static inputs: the ids and the key of dropout, and the gradient of the loss."""

    def __init__(self, model: Model, batch: Batch, into: Gradients, pool: GraphPool):
        self._model, self._into, xp = model, into, model.xp
        self._names = ("src", "tgt_in", "tgt_out") if model.reads_source else ("tgt_in", "tgt_out")
        ids = [getattr(batch, name) for name in self._names]
        *starts, end = np.cumsum([0, *(each.size for each in ids)]).tolist()
        self._ids_and_key = xp.empty(end + 2, np.int32)
        self._grad_loss = xp.empty((), model.parameters.data.dtype)
        views = (
            self._ids_and_key[start:][: each.size].reshape(each.shape) for start, each in zip(starts, ids, strict=True)
        )
        static_batch = replace(batch, **dict(zip(self._names, views, strict=True)))
        dropout = DropoutMasks.of_key(self._ids_and_key[end:].view(np.uint32))
        written_before = set(into.written)
        try:
            self._graph, self._results = pool.capture(
                lambda: loss_and_backward(model, static_batch, dropout, self._grad_loss, into)
            )
            self._written = set(into.written)
        except MemoryError:
            raise
        except Exception as error:
            reason = quoted(" ".join(str(error).split()), 100)
            raise BackendError(f"CUDA graph capture failed: {reason}; set execution.cuda_graphs to false") from error
        finally:
            into.written = written_before  # nothing has been computed yet

    def replay(self, batch: Batch, dropout: DropoutMasks, grad_loss: float) -> tuple[Tensor, Tensor]:
        """`loss_and_backward` of another micro-batch of this shape."""
        ids_and_key = []
        for name in self._names:
            ids = getattr(batch, name)
            self._model.check_ids(ids, name)
            ids_and_key.append(ids.ravel())
        ids_and_key.append(mixed_key(dropout.key).view(np.int32))
        self._ids_and_key[...] = self._model.xp.asarray(np.concatenate(ids_and_key))
        self._grad_loss.fill(grad_loss)
        self._graph.launch()
        self._into.written = set(self._written)
        loss, nll = self._results
        return Tensor(loss.data.copy()), Tensor(nll.data.copy())  # the next graph may overwrite them
