"""circe: conditional independence, measured and enforced.

    mean = circe.ConditionalMean().fit(y_holdout, z_holdout)          # what y says about z, once
    circe.circe(x, y, z, mean).value                                  # does x say more? 0: no

In a PyTorch training loop:

    circe_loss = circe.torch.CirceLoss(mean)
    loss = criterion(prediction, b) + gamma * circe_loss(features, y, z)

From tables to predictors and audits:

    training = circe.train(frame, features=["age", "income"], target="risk", invariant_to="group", gamma=1000)
    circe.audit(frame, prediction="score", target="outcome", sensitive=["group", "age"])

Names are loaded on first use. So `import circe` is quick, and NumPy, PyTorch and scikit-learn are imported only if they
are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:  # `as` tells a type checker that a name is exported
    from . import (causallearn as causallearn, dowhy as dowhy, errors as errors, jax as jax, pgmpy as pgmpy,
                   sklearn as sklearn, tigramite as tigramite, torch as torch)
    from ._audits import Audit as Audit, Finding as Finding, audit as audit
    from ._blocks import BlockMeasurement as BlockMeasurement, SampleWarning as SampleWarning, blocks as blocks
    from ._inference import (
        Along as Along, Calibration as Calibration, Effect as Effect, Effects as Effects, TestMemory as TestMemory,
        TestResult as TestResult, calibrate as calibrate, effects as effects, test as test)
    from ._jobs import (
        JobWarning as JobWarning, Predictions as Predictions, Predictor as Predictor, Training as Training, data as data,
        predict as predict, train as train)
    from ._types import ColumnTest as ColumnTest, column_types as column_types, encoded as encoded
    from ._many import Answer as Answer, Answers as Answers, test_many as test_many
    from ._kernels import (
        Kernel as Kernel, delta as delta, gaussian as gaussian, gram as gram, laplace as laplace, linear as linear,
        median_sigma2 as median_sigma2)
    from ._mean import (
        ConditionalMean as ConditionalMean, FitWarning as FitWarning, LooTable as LooTable,
        ResidualFeatures as ResidualFeatures)
    from ._measures import (
        MEASURES as MEASURES, Measurement as Measurement, circe as circe, circe_cached as circe_cached, gcm as gcm,
        hscic as hscic, hsic as hsic, kci as kci, kpc as kpc, measure as measure, nocco as nocco, spectral as spectral)
    from ._rows import transform as transform
    from ._runtime import get_threads as get_threads, set_threads as set_threads
    from ._sweeps import (
        Experiment as Experiment, Sweep as Sweep, experiment as experiment, experiments as experiments, sweep as sweep)
    from .errors import (
        ArgumentError as ArgumentError, CancelledError as CancelledError, CirceError as CirceError,
        ClosedError as ClosedError, CommandError as CommandError, DataError as DataError, DeviceError as DeviceError,
        DTypeError as DTypeError, FileError as FileError, FormatError as FormatError, NotFittedError as NotFittedError,
        NumericError as NumericError, OutOfMemoryError as OutOfMemoryError, RankError as RankError, ShapeError as ShapeError,
        UnsupportedError as UnsupportedError, VersionError as VersionError, WriteError as WriteError)

_WHERE = {
    "_audits": "Audit Finding audit",
    "_blocks": "BlockMeasurement SampleWarning blocks",
    "_many": "Answer Answers test_many",
    "_types": "ColumnTest column_types encoded",
    "_inference": "Along Calibration Effect Effects TestMemory TestResult calibrate effects test",
    "_jobs": "JobWarning Predictions Predictor Training data predict train",
    "_kernels": "Kernel gaussian laplace linear delta gram median_sigma2",
    "_mean": "ConditionalMean FitWarning LooTable ResidualFeatures",
    "_measures": "MEASURES Measurement circe circe_cached gcm hscic hsic kci kpc measure nocco spectral",
    "_rows": "transform",
    "_runtime": "get_threads set_threads",
    "_sweeps": "Experiment Sweep experiment experiments sweep",
    "errors": "ArgumentError CancelledError CirceError ClosedError CommandError DTypeError DataError DeviceError FileError "
              "FormatError NotFittedError NumericError OutOfMemoryError RankError ShapeError UnsupportedError VersionError "
              "WriteError",
}
_MODULE_OF = {name: module for module, names in _WHERE.items() for name in names.split()}
_MODULES = ("causallearn", "dowhy", "errors", "jax", "pgmpy", "sklearn", "tigramite", "torch")

__all__ = sorted({*_MODULE_OF, "build_info"} - {"circe"})  # "circe" would rebind the package's own name


def __getattr__(name: str) -> Any:
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


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})


def build_info() -> Dict[str, str]:
    """The C library that is loaded, where it lies, what it was built on, and the BLAS it computes with, with the processor
    whose kernels that uses."""
    from . import _native

    library = _native.library()
    lines = library.circe_build_info().decode().splitlines()
    return {"version": library.circe_version().decode(), "library": library.path,
            "blas": library.circe_blas_name().decode(), "blas_core": library.circe_blas_core().decode(),
            **dict(line.split(" ", 1) for line in lines if " " in line)}
