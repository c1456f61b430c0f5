"""The C ABI of libcirce and libcirce_jobs, through ctypes.

Structures and signatures are those of the headers (_headers.py): _native.CmeOptions is circe_cme_options, and a structure is
passed by ctypes.byref. Nothing is loaded before the first call, functions get their signature when they are first used, and the
library's version is compared once at loading. ctypes releases the GIL during every call.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import threading
import warnings
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Optional

from . import _headers, _loading_checks, _threadpool, errors

VERSION = (0, 2)  # major and minor of the headers beside this package

FLOAT32, FLOAT64 = 1, 2
METHODS = {"auto": 0, "lowrank": 1, "dense": 2, "rff": 3}
ESTIMATORS = {"biased": 1, "debiased": 2, "centered": 3, "ustat": 4}
HSIC_ESTIMATORS = {"biased": 1, "ustat": 2, "unbiased": 2}
NORMALIZATIONS = {"none": 0, "rows": 1, "batch": 2}
N_FIGURES = 3
GCM_REGRESSIONS = {"kernel": 1, "linear": 2}
REGRESSORS = {"kernel": 1, "linear": 2, "forest": 3}
TEST_MEANS = {"auto": 0, "rows": 1, "split": 2}
TRANSFORMS = {"none": 0, "ranks": 1, "normal-scores": 2}
GCM_COMBINES = {"max": 1, "logsumexp": 2, "squares": 3}


# mat(data, rows, cols, ld, dtype): a circe_mat as bytes, which ctypes passes as a pointer. A Structure (Mat) takes four times
# as long to make, and a training step makes four.
mat = struct.Struct("PqqqI4x").pack


# The library calls it during long work; a result other than 0 ends the work. It ignores the stage and numbers that the
# library passes: a function may take fewer arguments than it is called with.
Progress = ctypes.CFUNCTYPE(c_int)
# Computes the measure of some rows; a result other than 0 ends the work.
BlockFn = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_int64), c_int64, POINTER(c_double))
WatchProgress = ctypes.CFUNCTYPE(c_int, c_void_p, c_double, c_char_p)
WatchWarning = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


def __getattr__(name: str) -> Any:
    """CmeOptions is the structure circe_cme_options."""
    if name[0].isupper():
        found = _headers.structure("circe" + re.sub("([A-Z])", r"_\1", name).lower())
        if found is not None:
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def doubles(array) -> Any:
    """The address of an array of float64, for a field of a structure."""
    return ctypes.cast(array.ctypes.data, POINTER(c_double))


class Library:
    """A loaded library. An attribute is a C function, with its signature set at first use."""

    def __init__(self, path: str):
        self.path = path
        try:
            self._dll = ctypes.CDLL(path)
        except OSError as error:
            name = os.path.basename(path).partition(".")[0]
            raise errors.VersionError(f"{name} could not be loaded: {error}. Install the package (pip install . in its "
                                      "sources), or let CIRCE_LIBRARY name the libcirce.so.0 of a build") from None

    def __getattr__(self, name: str):
        if name not in _headers.functions():
            raise AttributeError(name)
        try:
            function = self._dll[name]
        except AttributeError:
            raise errors.VersionError(f"{self.path} has no function {name}: it is older than this package") from None
        function.restype, *function.argtypes = _headers.functions()[name]
        setattr(self, name, function)
        return function


def _library_path() -> str:
    """CIRCE_LIBRARY, the library of the wheel, or the one that the system's loader finds."""
    named = os.environ.get("CIRCE_LIBRARY")
    if named:
        return named
    bundled = Path(__file__).parent / "_bundle" / "lib" / "libcirce.so.0"
    return str(bundled) if bundled.exists() else "libcirce.so.0"


def _load() -> Library:
    _loading_checks.check_address_space()
    _loading_checks.name_cuda_libraries()
    loaded = Library(_library_path())
    found = loaded.circe_version().decode()
    if tuple(int(part) for part in found.split(".")[:2]) != VERSION:
        wanted = ".".join(map(str, VERSION))
        raise errors.VersionError(f"{loaded.path} is libcirce {found}; this package was written for {wanted}. Install both "
                                  "from one source, or unset CIRCE_LIBRARY")
    _threadpool.register()
    note = loaded.circe_blas_note()
    if note is not None:
        warnings.warn(note.decode(), RuntimeWarning, stacklevel=3)
    return loaded


_loading = threading.Lock()
_library: Optional[Library] = None
_jobs: Optional[Library] = None


def library() -> Library:
    """libcirce, loaded at the first call."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:
                _library = _load()
    return _library


def jobs() -> Library:
    """libcirce_jobs, which lies beside libcirce and is linked to it: that one is loaded first."""
    global _jobs
    if _jobs is None:
        beside = os.path.join(os.path.dirname(library().path), "libcirce_jobs.so.0")
        with _loading:
            if _jobs is None:
                _jobs = Library(beside)
    return _jobs


def fail(status: int, subject: str = "") -> errors.CirceError:
    """The exception of a status, with this thread's text. `subject` opens it where the text itself names no argument."""
    text = library().circe_last_error().decode(errors="replace")
    kind = errors.BY_STATUS.get(status, errors.CirceError)
    return kind(f"{subject}: {text}" if subject else text)


def check(status: int, subject: str = "") -> None:
    if status:
        raise fail(status, subject)


def taken_text(pointer: Optional[int]) -> str:
    """A text that the library allocated, which is freed."""
    if not pointer:
        raise errors.OutOfMemoryError("out of memory")
    try:
        return ctypes.string_at(pointer).decode()
    finally:
        jobs().circe_text_free(pointer)


def hsic_estimator(word) -> str:
    """Its name elsewhere: "unbiased" is an older word for "ustat"."""
    return "biased" if choice(HSIC_ESTIMATORS, "estimator", word) == HSIC_ESTIMATORS["biased"] else "ustat"


def choice(table: dict, name: str, value) -> int:
    """The number of a word, or an ArgumentError that lists the words."""
    number = table.get(value) if isinstance(value, str) else None
    if number is None:
        raise errors.ArgumentError(f"{name} is {value!r}; it must be one of {', '.join(table)}")
    return number
