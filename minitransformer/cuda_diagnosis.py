"""Why CUDA cannot be used here, in one line with the remedy. CuPy is imported only when a check needs it."""

import ctypes
import importlib.util
import os
import sys
from types import ModuleType

from minitransformer.errors import install_hint

MIB = 1 << 20


def driver_version() -> int:
    """The newest CUDA that NVIDIA's driver can run, as 1000 * major + 10 * minor; 0 where there is no driver.

    This asks the driver's own library, so CuPy need not be installed.
    """
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value


def cuda_trouble() -> str | None:
    """Why CuPy cannot compute here, with the remedy, or ``None`` if it can."""
    if not is_installed("cupy"):
        return f"CuPy is not installed; {install_hint('cuda13')} (cuda12 for cards before Turing)"
    try:
        import cupy
    except ImportError as error:
        return f"CuPy is installed but cannot be loaded ({_one_line(error)}); {install_hint('cuda13')} again"
    runtime = cupy.cuda.runtime
    driver, wanted = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if driver == 0:
        return "CuPy is installed but there is no NVIDIA driver; install the driver of your card"
    if driver // 1000 < wanted // 1000:
        older = f", or {_replace_cupy(wanted // 1000)}" if driver // 1000 == 12 else ""
        return (
            f"the NVIDIA driver is for CUDA {driver // 1000}, this CuPy for CUDA {wanted // 1000}; "
            f"install a newer driver{older}"
        )
    if not cupy.cuda.is_available():
        return "the NVIDIA driver is there but sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    return _card_trouble(cupy, wanted // 1000) or library_trouble(wanted // 1000) or _first_product_trouble(cupy)


def unused_gpu(device: str) -> str:
    """One line that says why auto is the CPU on a machine with NVIDIA's driver; "" otherwise."""
    trouble = cuda_trouble() if device == "auto" and driver_version() else None
    return f"train: on the CPU, not on the GPU: {trouble}" if trouble else ""


def _card_trouble(cupy: ModuleType, cuda: int) -> str | None:
    """Whether the GPU is too old for the wheel: CUDA 13 needs Turing or later."""
    have = int(cupy.cuda.Device().compute_capability)
    need = 75 if cuda >= 13 else 50
    if have >= need:
        return None
    remedy = _replace_cupy(cuda) if have >= 50 else "use a newer card"
    return f"the GPU has compute capability {have / 10}, CuPy for CUDA {cuda} needs {need / 10}; {remedy}"


def _replace_cupy(cuda: int) -> str:
    """How to get CuPy for CUDA 12. Two CuPys share their files, so the other one must go first."""
    return f"pip uninstall cupy-cuda{cuda}x, then {install_hint('cuda12')}"


def library_trouble(cuda: int) -> str | None:
    """Whether CUDA's libraries, which do not come with the driver, are missing."""
    try:
        from cuda import pathfinder
    except ImportError:  # older CuPy finds them itself; if it does not, the first product fails
        return None
    for library in ("cublas", "nvrtc"):
        try:
            pathfinder.load_nvidia_dynamic_lib(library)
        except (RuntimeError, OSError) as error:
            return (
                f"the driver is there but CUDA's library {library} is not ({_one_line(error)}); "
                f"{install_hint(f'cuda{cuda}')}"
            )
    return None


def _first_product_trouble(cupy: ModuleType) -> str | None:
    """Whether a first computation fails for any other reason."""
    try:
        ones = cupy.ones((2, 2), "f")
        cupy.matmul(ones, ones)
        cupy.cuda.runtime.deviceSynchronize()
    except ImportError as error:
        return f"CUDA's libraries cannot be loaded ({_one_line(error)}); {install_hint('cuda13')} (or cuda12)"
    except Exception as error:  # CuPy, cuBLAS, NVRTC and the driver each have exceptions of their own
        if is_out_of_memory(error):
            return f"the GPU's memory is full ({_one_line(error)}); nvidia-smi shows which processes use it"
        return f"the GPU refused a first computation ({type(error).__name__}: {_one_line(error)}); see `doctor`"
    return None


def is_installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]


NO_MEMORY = ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "CUBLAS_STATUS_ALLOC_FAILED")
"""How the runtime, the driver and cuBLAS report full memory, each by its own exception. CuPy's arrays: MemoryError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory is full, on the host or on the GPU."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and str(error).startswith(NO_MEMORY))


def memory_trouble(error: BaseException) -> str:
    """What was requested and, on a GPU, how much memory is free."""
    asked = getattr(error, "_size", None)  # CuPy's OutOfMemoryError
    if asked is None and isinstance(error, MemoryError):
        return str(error) or "no details"
    text = str(error) if asked is None else f"{asked / MIB:,.0f} MiB requested on the GPU"
    try:
        free, total = sys.modules["cupy"].cuda.runtime.memGetInfo()
    except Exception:  # the driver may no longer answer
        return text
    return f"{text}, {free / MIB:,.0f} of {total / MIB:,.0f} MiB free"
