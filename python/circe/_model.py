"""A fitted conditional mean of the library, and its file."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import tempfile
import threading
from typing import Any, Callable, Iterator, Optional

from . import _native, _runtime, errors

CATEGORIES = b"circe_categories"  # the key of the command's model files


class Model:
    """A fitted circe_cme. Many threads may measure with it at once."""

    def __init__(self, handle: _runtime.Handle):
        self._handle: Optional[_runtime.Handle] = handle
        self._forks = _runtime.forks
        self.info = _native.CmeInfo()
        _native.check(_native.library().circe_cme_get_info(handle.pointer, ctypes.byref(self.info)))
        self.random = self.info.method == _native.METHODS["rff"]
        self._guard = self._make_guard()

    def _make_guard(self):
        return threading.Lock() if self.random else contextlib.nullcontext()

    @property
    def guard(self):
        """Held during a call; only random features change under one's hands (rff_step). A child of fork has its own."""
        if self._forks != _runtime.forks:
            self._guard, self._forks = self._make_guard(), _runtime.forks
        return self._guard

    @property
    def handle(self) -> _runtime.Handle:
        handle = self._handle
        if handle is None:
            raise errors.ClosedError("the ConditionalMean was closed")
        return handle

    @property
    def pointer(self) -> int:
        return self.handle.pointer

    @contextlib.contextmanager
    def held(self) -> Iterator[int]:
        """Its pointer, for a call: it lives to the end of it, whoever closes it."""
        handle = self.handle
        with self.guard:
            yield handle.pointer

    def close(self) -> None:
        handle, self._handle = self._handle, None
        _runtime.changed()
        del handle  # kept until others know that it is closed


def bytes_of(save: Callable[[str], Any]) -> bytes:
    """The contents of the file that `save` writes."""
    with tempfile.TemporaryDirectory(prefix="circe-") as folder:
        path = os.path.join(folder, "model.safetensors")
        save(path)
        with open(path, "rb") as file:
            return file.read()


def from_bytes(contents: bytes, load: Callable[[str], Any]) -> Any:
    """What `load` makes of a file with these contents."""
    with tempfile.TemporaryDirectory(prefix="circe-") as folder:
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(contents)
        return load(path)


def load(path: str) -> _runtime.Handle:
    context = _runtime.context()
    return _runtime.make("circe_cme_load", "circe_cme_destroy", context.pointer, os.fsencode(path), parents=[context.handle])


def categories_in(path: str) -> dict:
    """The texts of categories in a model's file, by variable: a list or None for every column."""
    context, library = _runtime.context(), _native.library()
    file = _runtime.make("circe_tensor_file_open", "circe_tensor_file_close", context.pointer, os.fsencode(path),
                         parents=[context.handle])
    text = library.circe_tensor_file_metadata(file.pointer, CATEGORIES)
    try:
        found = {} if text is None else json.loads(text)
        return {name: [None if texts is None else list(map(str, texts)) for texts in found[name]] for name in found}
    except (TypeError, ValueError):
        raise errors.FormatError(f"{path}: its metadata {CATEGORIES.decode()} is damaged") from None
