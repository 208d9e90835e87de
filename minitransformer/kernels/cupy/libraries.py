"""CUDA's libraries that are called through ctypes, and the GPU and stream that their calls are for."""

import ctypes
from functools import cache
from types import ModuleType

from minitransformer.backend import Array
from minitransformer.errors import BackendError


def cuda_library(name: str) -> ctypes.CDLL:
    """Such as ``cublas``: the very library that CuPy uses, as it is found in the same way.

    Raises:
        BackendError: it is missing or cannot be loaded.
    """
    try:
        from cuda import pathfinder

        return ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib(name).abs_path)
    except (ImportError, RuntimeError, OSError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split()).split(": No such file")[0]  # the finder appends every path it has tried
        raise BackendError(f"{name}: it must be possible to load it, got {reason}") from error


def current_device() -> tuple[int, int, int]:
    """The index of the current GPU, its compute capability times ten, and the address of the current stream."""
    import cupy

    device = cupy.cuda.Device()
    return device.id, int(device.compute_capability), cupy.cuda.get_current_stream().ptr


@cache
def workspace(gpu: int, capability: int, stream: int, xp: ModuleType) -> Array:
    """Working memory for the products of a stream, which run one after another, and so may share it: as much as
    cuBLAS's manual recommends (cublasSetWorkspace), 32 MiB from Hopper on, else 4."""
    return xp.empty((32 if capability >= 90 else 4) << 20, "uint8")
