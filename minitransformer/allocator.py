"""A setting of the C library's allocator that makes training faster."""

import ctypes


def keep_freed_memory() -> None:
    """Ask the C library to reuse the memory of freed arrays instead of giving it back to the system.

    A step allocates and frees hundreds of arrays of a few megabytes. glibc requests each from the system again, which
    then zeroes it page by page: a tenth of a training step (benchmarks/notes.md). With another C library this does
    nothing.
    """
    m_trim_threshold, m_mmap_threshold, m_arena_max = -1, -3, -8  # from malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    mallopt(m_mmap_threshold, 1 << 30) or mallopt(m_mmap_threshold, 1 << 25)  # older versions allow 32 MB at most
    mallopt(m_trim_threshold, (1 << 31) - 1)
    mallopt(m_arena_max, 1)  # a second thread's arena would still return large arrays to the system
