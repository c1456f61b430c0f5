"""The exceptions. Every status of the C library has a class; the text comes from the library.

All derive from CirceError, and each also from the built-in exception that a Python programmer would catch.
"""

from __future__ import annotations


class CirceError(Exception):
    """Base of all errors of this package. `status` is the C library's number, 0 where Python itself refused."""

    status = 0


class ArgumentError(CirceError, ValueError):
    """An argument is out of its range."""

    status = 1


class ShapeError(CirceError, ValueError):
    """The shapes of the arguments do not agree."""

    status = 2


class DataError(CirceError, ValueError):
    """The data contain NaN or infinity, or are otherwise unusable."""

    status = 3


class OutOfMemoryError(CirceError, MemoryError):
    """Not enough memory."""

    status = 4


class NumericError(CirceError, ArithmeticError):
    """A factorisation failed."""

    status = 5


class RankError(CirceError, ArithmeticError):
    """The kernel matrix does not have low rank at this tolerance."""

    status = 6


class FileError(CirceError, OSError):
    """A file could not be read."""

    status = 7


class WriteError(FileError):
    """A file could not be written."""

    status = 12


class FormatError(CirceError, ValueError):
    """A file is damaged or has another format."""

    status = 8


class UnsupportedError(CirceError, RuntimeError):
    """This combination or build does not support the operation."""

    status = 9


class CancelledError(CirceError, RuntimeError):
    """The work was asked to stop."""

    status = 10


class DeviceError(CirceError, RuntimeError):
    """A GPU or its driver reported an error, or an argument lies on the wrong device."""

    status = 11


class DTypeError(CirceError, TypeError):
    """An argument does not contain real numbers, or not in the requested type."""


class ClosedError(CirceError, ValueError):
    """The object was closed and cannot be used any more."""


class NotFittedError(CirceError, ValueError, AttributeError):
    """fit() has not been called yet."""


class VersionError(CirceError, ImportError):
    """The C library was not found, or its version does not match this package."""


class CommandError(CirceError, ValueError):
    """The command circe was not found."""


BY_STATUS = {
    kind.status: kind
    for kind in (ArgumentError, ShapeError, DataError, OutOfMemoryError, NumericError, RankError, FileError, FormatError,
                 UnsupportedError, CancelledError, DeviceError, WriteError)
}
