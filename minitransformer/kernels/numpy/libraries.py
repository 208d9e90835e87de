"""The libraries that can form matrix products instead of NumPy's BLAS. To use another one, add an entry."""

import ctypes
import importlib.metadata
import re
from functools import cache, partial

from minitransformer.errors import BackendError, install_hint, printable
from minitransformer.kernels.numpy.cblas import Entry, Library, check

AUTO_STRICT = 2 | 0x10000  # MKL_CBWR_AUTO | MKL_CBWR_STRICT


def _start_onemkl(library: ctypes.CDLL) -> str:
    """Results that do not depend on where arrays begin in memory: in its strict mode (CBWR) the same factors on as many
    threads give the same bits."""
    if library.MKL_CBWR_Set(AUTO_STRICT) != 0:
        raise BackendError("it must be set to repeat its results (CBWR) before its first product")
    library.MKL_Set_Dynamic(0)  # as many threads as it is told, whatever the load
    text = ctypes.create_string_buffer(256)
    library.MKL_Get_Version_String(text, len(text))
    return _number_in(text.value)


def _start_blis(library: ctypes.CDLL) -> str:
    bits = library.bli_info_get_blas_int_type_size()
    if bits != 32:
        raise BackendError(f"its CBLAS interface must have integers of 32 bits, got {bits}")
    return _stated(library, "bli_info_get_version_str")


def _stated(library: ctypes.CDLL, function: str) -> str:
    """The version in the text that a function returns."""
    state = getattr(library, function)
    state.restype = ctypes.c_char_p
    return _number_in(state())


def _number_in(text: bytes) -> str:
    return re.search(r"\d+(\.\d+)+|$", text.decode("ascii", "replace"))[0]


LIBRARIES = {
    "mkl": Entry(
        title="oneMKL",
        package="mkl",
        files=("libmkl_rt.so", "mkl_rt."),
        function="cblas_{}gemm{}_64",
        set_threads="MKL_Set_Num_Threads_Local",
        start=_start_onemkl,
        packs=True,
    ),
    "openblas": Entry(
        title="OpenBLAS (scipy-openblas64)",
        package="scipy-openblas64",
        files=("libscipy_openblas64_.",),
        function="scipy_cblas_{}gemm{}64_",
        set_threads="scipy_openblas_set_num_threads64_",
        start=partial(_stated, function="scipy_openblas_get_config64_"),
    ),
    "blis": Entry(
        title="BLIS",
        files=("libblis-mt.so", "libblis.so.4"),
        function="cblas_{}gemm{}",
        set_threads="bli_thread_set_num_threads",
        start=_start_blis,
        integer=ctypes.c_int,
    ),
}
"""By the names that MINITRANSFORMER_BLAS may have. One without a package is used only if it is asked for there."""


def installed() -> list[str]:
    """Those that a Python package has brought."""
    return [name for name, entry in LIBRARIES.items() if entry.package and _paths(entry) is not None]


@cache
def load(name: str) -> Library:
    """The library, tested.

    Raises:
        BackendError: it cannot be used; the message says why.
    """
    entry = LIBRARIES[name]
    try:
        library = _opened(entry)
        check(library)
        return library
    except (OSError, AttributeError, BackendError) as error:
        remedy = install_hint(name) if entry.package else "install it where the system's loader finds it"
        raise BackendError(f"{entry.title} cannot be used ({printable(str(error), 100)}); {remedy}") from error


def _opened(entry: Entry) -> Library:
    """The first of its files that can be loaded."""
    paths = _paths(entry)
    state = "is not installed" if paths is None else "does not contain it"
    trouble: Exception = BackendError(f"the package {entry.package} {state}")
    for path in paths or ():
        try:
            return Library(path, entry)
        except (OSError, AttributeError, BackendError) as error:
            trouble = error
    raise trouble


def _paths(entry: Entry) -> tuple[str, ...] | None:
    """What to load, in turn; None if the package is not installed."""
    if entry.package is None:
        return entry.files
    try:
        files = importlib.metadata.files(entry.package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return tuple(str(file.locate()) for file in files if file.name.startswith(entry.files))
