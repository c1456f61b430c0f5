"""The losses as custom calls of XLA: _ffi.cc, compiled once against the installed jaxlib's headers, and kept.

A handler of XLA is C++ for one version of jaxlib, so no wheel can contain it for all. If it cannot be compiled, the
losses go through Python (jax.pure_callback): the same numbers, only on the CPU, and about 0.2 ms more per step.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from importlib import metadata
from pathlib import Path
from typing import List, Optional

import jax

from .. import _headers, _native, _runtime

_SOURCE = Path(__file__).with_name("_ffi.cc")
_TARGETS = {"cpu": {"circe_points": "circe_jax_points", "circe_rows": "circe_jax_rows"},
            "CUDA": {"circe_points": "circe_jax_points_cuda", "circe_rows": "circe_jax_rows_cuda"}}


class BuildWarning(UserWarning):
    """The custom calls could not be compiled, so the losses go through Python."""


def _cache() -> Path:
    chosen = os.environ.get("CIRCE_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "circe")
    return Path(chosen)


def _key(headers: Path) -> str:
    """A hash of everything that the result depends on."""
    parts = hashlib.sha256(_SOURCE.read_bytes())
    for header in sorted((headers / "circe").glob("*.h")):
        parts.update(header.read_bytes())
    parts.update(metadata.version("jaxlib").encode())
    return parts.hexdigest()[:16]


def _compiler() -> Optional[str]:
    return os.environ.get("CXX") or next((found for name in ("c++", "g++", "clang++") if (found := shutil.which(name))), None)


def _command(compiler: str, headers: Path, to: str) -> List[str]:
    return [*compiler.split(), "-std=c++17", "-O2", "-w", "-fPIC", "-shared", f"-I{jax.ffi.include_dir()}", f"-I{headers}",
            "-o", to, str(_SOURCE), "-ldl"]


def _compile(headers: Path, path: Path) -> Optional[str]:
    """Compiles into `path`, completely or not at all. Returns None, or what is wrong."""
    compiler = _compiler()
    if compiler is None:
        return "there is no C++ compiler"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = os.path.join(folder, path.name)
            done = subprocess.run(_command(compiler, headers, made), capture_output=True, text=True)
            if done.returncode:
                return f"{compiler} says: {done.stderr.strip()[-500:]}"
            os.replace(made, path)
    except OSError as failure:
        return str(failure)
    return None


def _built() -> Path:
    """The shared object, compiled at the first call on this machine; raises RuntimeError with what is wrong."""
    headers = _headers.folder()
    if not hasattr(jax, "ffi"):
        raise RuntimeError(f"JAX {jax.__version__} has no jax.ffi; 0.5 and newer have")
    if headers is None:
        raise RuntimeError("circe's headers are not installed beside it")
    path = _cache() / f"jax-{_key(headers)}.so"
    failure = None if path.exists() else _compile(headers, path)
    if failure is not None:
        raise RuntimeError(failure)
    return path


def _opened(path: Path) -> ctypes.CDLL:
    shim = ctypes.CDLL(str(path))
    shim.circe_jax_open.argtypes, shim.circe_jax_open.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_char_p
    shim.circe_jax_plan.argtypes = [ctypes.POINTER(_native.MeasureOptions), ctypes.c_void_p, ctypes.c_void_p]
    shim.circe_jax_plan.restype = ctypes.c_int64
    shim.circe_jax_forget.argtypes, shim.circe_jax_forget.restype = [ctypes.c_int64], None
    failure = shim.circe_jax_open(os.fsencode(_native.library().path), _runtime.get_threads())
    if failure is not None:
        raise RuntimeError(failure.decode(errors="replace"))
    return shim


@functools.lru_cache(maxsize=None)
def shim() -> Optional[ctypes.CDLL]:
    """The custom calls, registered; None where the losses go through Python (CIRCE_JAX=callback asks for that)."""
    if os.environ.get("CIRCE_JAX") == "callback":
        return None
    try:
        found = _opened(_built())
    except (RuntimeError, OSError) as failure:
        warnings.warn(f"circe's custom calls for JAX could not be built, and its losses go through Python: {failure}", BuildWarning,
                      stacklevel=4)
        return None
    for platform, targets in _TARGETS.items():
        for name, symbol in targets.items():
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(found, symbol)), platform=platform)
    return found


def backend() -> str:
    """How the losses reach the library: "ffi" (custom calls) or "callback" (through Python)."""
    return "callback" if shim() is None else "ffi"
