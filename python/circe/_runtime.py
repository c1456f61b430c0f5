"""Contexts, one per thread of Python, made when first needed; threads, fork, and the lifetime of C objects.

A C object must be destroyed before its context, even when the interpreter exits or when a thread ends before an object
that it made: Handle ensures that.

A child of fork() continues with the contexts and models that it inherited: the library starts its own threads there.
Only locks are made again, because another thread of the parent may have held them at that moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import operator
import os
import signal
import threading
from collections import OrderedDict
from typing import Any, Optional

from . import _native, errors

_MAX_KERNELS = 64
_local = threading.local()


class Handle:
    """An owned C object, destroyed with its last reference, and after all that was made from it.

    References alone do not keep that order: objects of a garbage cycle are finalised in any. So each also knows its children
    (a set and a list, whose methods are atomic: finalisers run in any thread).
    """

    __slots__ = ("pointer", "_own", "_destroy", "_parents", "_children", "_dead", "__weakref__")

    def __init__(self, pointer: int, destroy, *parents: "Handle"):
        self.pointer, self._own, self._destroy, self._parents = pointer, [pointer], destroy, parents
        self._children: set = set()
        self._dead = False
        for parent in parents:
            parent._children.add(id(self))

    def __del__(self):
        self._dead = True
        self._free()

    def _free(self) -> None:
        if not self._dead or self._children:
            return
        try:
            pointer = self._own.pop()
        except IndexError:
            return
        self._destroy(pointer)
        for parent in self._parents:
            parent._children.discard(id(self))
            parent._free()


def make(name: str, destroy: str, *arguments, parents=(), subject: str = "", library=None) -> Handle:
    """Call a function whose last argument takes the object it makes."""
    library = library or _native.library()
    made = ctypes.c_void_p()
    status = getattr(library, name)(*arguments, ctypes.byref(made))
    if status:
        raise _native.fail(status, subject)
    return Handle(made.value or 0, getattr(library, destroy), *parents)


class Context:
    """A context with a workspace and the kernels that were parsed in it."""

    def __init__(self, threads: int, generation: int):
        library = _native.library()
        options = _native.ContextOptions()
        library.circe_context_options_init(ctypes.byref(options))
        options.threads = threads
        options.progress = ctypes.cast(_progress, ctypes.c_void_p)
        self.generation = generation
        self.handle = make("circe_context_create", "circe_context_destroy", ctypes.byref(options), subject="threads")
        self.pointer = self.handle.pointer
        self.workspace = make("circe_workspace_create", "circe_workspace_destroy", self.pointer,
                              parents=[self.handle])
        self.work = self.workspace.pointer
        self.kernels: OrderedDict = OrderedDict()
        self.measures: OrderedDict = OrderedDict()
        self.cuda: OrderedDict = OrderedDict()
        self.weights: Any = None  # of the rows that are being measured; None: they count alike

    def remember(self, key, kernel: Handle) -> Handle:
        """Keeps what was parsed, the latest so many."""
        self.kernels[key] = kernel
        if len(self.kernels) > _MAX_KERNELS:
            self.kernels.popitem(last=False)
        return kernel


class _Asked:
    """Adds 1 to a sum if the call of this thread should end. Adding runs Python, and with it the signal handlers."""

    def __radd__(self, other: int) -> int:
        return other + getattr(_local, "stop", 0)


# All contexts share one function: those of the library live as long as a model that was made in them, longer than a
# Context. It runs Python only inside interruptible(): elsewhere it would raise the Ctrl-C, which would be lost.
_asked: list = []
_progress = _native.Progress(functools.partial(sum, _asked))


def is_stopping() -> bool:
    """Ctrl-C was pressed in a call of the library."""
    return bool(getattr(_local, "stop", 0))


@contextlib.contextmanager
def interruptible():
    """Ctrl-C ends the library's work, at the next step that it reports, and is then raised as ever.

    Python runs its handler of a signal between two of its own instructions, which in a long call of the library are those of
    the progress function alone, where an exception would have nowhere to go: so the handler only notes the signal there.
    """
    usual = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(usual):  # another thread, or Ctrl-C is ignored or ends the process
        yield
        return
    noted = []

    def note(number, frame):
        _local.stop = 1
        noted.append(frame)

    signal.signal(signal.SIGINT, note)
    _asked.append(_Asked())
    try:
        yield
    finally:
        _asked.pop()
        signal.signal(signal.SIGINT, usual)
        _local.stop = 0
        if noted:
            usual(signal.SIGINT, noted[0])


_threads = 0
_generation = 0
forks = 0  # the number of forks since this module was loaded
_count = itertools.count(1)
changes = 0  # grows when a context or an object of the library may have been replaced; see changed()


def changed() -> None:
    """To be called after something was closed or fitted again: what others remember of it is then looked up anew."""
    global changes
    changes = next(_count)


def context() -> Context:
    """This thread's context."""
    found = getattr(_local, "context", None)
    if found is None or found.generation != _generation:
        generation = _generation  # read first, so that a later change makes a new context
        found = _local.context = Context(_threads, generation)
    return found


@contextlib.contextmanager
def threads_of(n: Optional[int]):
    """A context of so many threads in the place of this thread's; None: that one."""
    if n is None:
        yield
        return
    usual = context()
    _local.context = Context(_number_of_threads(n, "threads"), _generation)
    try:
        yield
    finally:
        _local.context = usual


def _number_of_threads(n, name: str) -> int:
    try:
        n = operator.index(n)
    except TypeError:
        raise errors.DTypeError(f"{name} is {n!r}; it must be a whole number of threads") from None
    if not 0 <= n <= 4096:
        raise errors.ArgumentError(f"{name} is {n}; it must be 0 (all) to 4096")
    return n


def set_threads(n: int) -> None:
    """Sets the number of threads of the library for all later calls; 0: OMP_NUM_THREADS, or all processors.

    This number changes results only by rounding. The library may use fewer threads, with the same results: never more than
    processors, and never more than threadpoolctl allows. A model keeps the number that it was fitted or loaded with.

    >>> before = get_threads()
    >>> set_threads(1)
    >>> get_threads()
    1
    >>> set_threads(before)
    """
    global _threads, _generation
    _threads = _number_of_threads(n, "n")
    _generation = next(_count)  # not += 1, because several threads may run this
    changed()


def get_threads() -> int:
    """The number of threads of the library in this thread of Python."""
    return _native.library().circe_context_threads(context().pointer)


def _after_fork() -> None:
    global forks
    forks += 1
    changed()
    _native._loading = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
