"""Settings of the C library's memory allocator for a process of ours, whose buffers come and go."""

from __future__ import annotations

import ctypes
import sys

#: Buffers up to this many bytes come from the heap. What glibc maps or gives back, the kernel has to clear again.
MAPPED_FROM_BYTES = 4 << 20
#: Free bytes at the heap's end that the process keeps for its next buffers; glibc's own limit begins at 128 KiB.
KEPT_BYTES = 8 << 20
# The numbers of the parameters in glibc's malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3


def keep_buffers(kept_bytes: int = KEPT_BYTES) -> bool:
    """Have the memory of freed buffers used again, up to ``kept_bytes`` (1 GiB at most).

    Return whether the C library can do so (glibc).

    For a process of ours alone: a library must not change the allocator of the application around it.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)) and bool(
        mallopt(_TRIM_THRESHOLD, min(kept_bytes, 1 << 30))
    )
