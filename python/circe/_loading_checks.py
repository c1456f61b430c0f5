"""Before libcirce is loaded: is there room for its BLAS, and where are NVIDIA's libraries?"""

from __future__ import annotations

import mmap
import os
import resource
import sys
from pathlib import Path

from . import errors


def check_address_space() -> None:
    """OpenBLAS asks for its buffers again and again, for ever, while it is loaded under a limit that leaves no room for
    them (ulimit -v): 128 MB a thread."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    asked = [os.environ.get(name, "") for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")]
    threads = min([int(text) for text in asked if text.isdigit() and int(text) > 0] or [len(os.sched_getaffinity(0))])
    needed = (min(threads, 64) * 128 + 64) << 20  # with the library's own code
    try:
        mmap.mmap(-1, needed).close()
    except (OSError, ValueError, MemoryError):
        raise errors.OutOfMemoryError(f"libcirce is not loaded: OpenBLAS needs {needed >> 20} MB of address space for "
                                      f"{threads} threads, but less is available (ulimit -v shows the limit). Raise the "
                                      "limit, or set OMP_NUM_THREADS=1") from None


def name_cuda_libraries() -> None:
    """Those that `pip install circe[cuda]` brought lie in folders that no loader knows; libcirce asks for their names."""
    found = [str(folder) for place in map(Path, sys.path) for kind in ("cu[0-9]*", "cudnn") for folder in place.glob(f"nvidia/{kind}/lib")]
    if found:
        os.environ.setdefault("CIRCE_CUDA_LIBRARIES", os.pathsep.join(found))
