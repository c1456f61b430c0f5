"""circe: conditional independence, measured and enforced.

    mean = circe.ConditionalMean().fit(y_holdout, z_holdout)          # what y says about z, once
    circe.circe(x, y, z, mean).value                                  # does x say more? 0: no

In a PyTorch training loop:

    circe_loss = circe.torch.CirceLoss(mean, sigma2_x=0.1)
    loss = criterion(prediction, b) + gamma * circe_loss(features, y, z)

Names are loaded when they are first used, so that `import circe` is quick and NumPy, PyTorch and scikit-learn are imported
only by those who need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import causallearn, errors, sklearn, torch
    from ._blocks import BlockMeasurement, SampleWarning, blocks
    from ._inference import Along, Calibration, Effect, Effects, TestResult, calibrate, effects, test
    from ._kernels import Kernel, delta, gaussian, gram, laplace, linear, median_sigma2
    from ._mean import ConditionalMean, FitWarning, LooTable, ResidualFeatures
    from ._measures import (MEASURES, Measurement, circe, circe_cached, gcm, hscic, hsic, kci, kpc, measure, nocco,
                            spectral, transform)
    from ._runtime import get_threads, set_threads
    from .errors import (ArgumentError, CancelledError, CirceError, ClosedError, CommandError, DataError, DeviceError,
                         DTypeError, FileError, FormatError, NotFittedError, NumericError, OutOfMemoryError, RankError,
                         ShapeError, UnsupportedError, VersionError, WriteError)

_WHERE = {
    "_blocks": "BlockMeasurement SampleWarning blocks",
    "_inference": "Along Calibration Effect Effects TestResult calibrate effects test",
    "_kernels": "Kernel gaussian laplace linear delta gram median_sigma2",
    "_mean": "ConditionalMean FitWarning LooTable ResidualFeatures",
    "_measures": "MEASURES Measurement circe circe_cached gcm hscic hsic kci kpc measure nocco spectral transform",
    "_runtime": "get_threads set_threads",
    "errors": "ArgumentError CancelledError CirceError ClosedError CommandError DTypeError DataError DeviceError FileError "
              "FormatError NotFittedError NumericError OutOfMemoryError RankError ShapeError UnsupportedError VersionError "
              "WriteError",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}
_MODULES = ("causallearn", "errors", "sklearn", "torch")

__all__ = sorted([*_MODULE_OF, "build_info"])


def __getattr__(name: str):
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    elif name == "__version__":
        from . import _native

        value = _native.library().circe_version().decode()
    else:
        raise AttributeError(f"module 'circe' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def build_info() -> dict:
    """The C library that is loaded, where it lies, what it was built on, and the BLAS it computes with, with the processor
    whose kernels that uses."""
    from . import _native

    library = _native.library()
    lines = library.circe_build_info().decode().splitlines()
    return {"version": library.circe_version().decode(), "library": library.path,
            "blas": library.circe_blas_name().decode(), "blas_core": library.circe_blas_core().decode(),
            **dict(line.split(" ", 1) for line in lines if " " in line)}
