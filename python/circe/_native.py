"""The C ABI of libcirce and libcirce_jobs, through ctypes: the one place that declares every function.

Structures mirror include/circe/*.h field by field; python/tests/test_native.py compares both. Nothing is loaded before the first
call, functions get their signature when they are first used, and the library's version is compared once at loading.
ctypes releases the GIL during every call.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import warnings
from ctypes import POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from . import _loading_checks, _threadpool, errors

VERSION = (0, 2)  # major and minor of the headers that this file mirrors

FLOAT32, FLOAT64 = 1, 2
METHODS = {"auto": 0, "lowrank": 1, "dense": 2, "rff": 3}
ESTIMATORS = {"biased": 1, "debiased": 2, "centered": 3, "ustat": 4}
HSIC_ESTIMATORS = {"biased": 1, "ustat": 2, "unbiased": 2}  # the last is an older word for ustat
NORMALIZATIONS = {"none": 0, "rows": 1, "batch": 2}
N_FIGURES = 3
GCM_REGRESSIONS = {"kernel": 1, "linear": 2}
REGRESSORS = {"kernel": 1, "linear": 2, "forest": 3}
TEST_MEANS = {"auto": 0, "rows": 1, "split": 2}
TRANSFORMS = {"none": 0, "ranks": 1, "normal-scores": 2}
GCM_COMBINES = {"max": 1, "logsumexp": 2, "squares": 3}


class Mat(ctypes.Structure):
    """A view, where the library fills it in. Those that are handed over are packed: see `mat`."""

    _fields_ = [("data", c_void_p), ("rows", c_int64), ("cols", c_int64), ("ld", c_int64), ("dtype", c_int)]


# mat(data, rows, cols, ld, dtype): a circe_mat as bytes, which ctypes passes as a pointer. A Structure takes four times as
# long to make, and a training step makes four.
mat = struct.Struct("PqqqI4x").pack


class CmeOptions(ctypes.Structure):
    _fields_ = [("method", c_int), ("sigma2_y", POINTER(c_double)), ("n_sigma2_y", c_int64), ("ridge", POINTER(c_double)),
                ("n_ridge", c_int64), ("tolerance", c_double), ("max_rank", c_int64), ("force_ridge", c_int),
                ("seed", c_uint64), ("rff_pool", c_int64), ("rff_batch", c_int64), ("rff_every", c_int64), ("weights", c_void_p)]


class CmeInfo(ctypes.Structure):
    _fields_ = [("method", c_int), ("solver", c_int), ("rows", c_int64), ("dim_y", c_int64), ("dim_z", c_int64),
                ("rank_y", c_int64), ("rank_z", c_int64), ("trace_residual_y", c_double), ("trace_residual_z", c_double),
                ("sigma2_y", c_double), ("ridge", c_double), ("ridge_safe", c_double), ("ridge_raised", c_int),
                ("loo_error", c_double), ("seconds", c_double), ("width_at_edge", c_int)]


class LooTable(ctypes.Structure):
    _fields_ = [("n_sigma2_y", c_int64), ("n_ridge", c_int64), ("sigma2_y", POINTER(c_double)),
                ("ridge", POINTER(c_double)), ("error", POINTER(c_double)), ("ridge_used", POINTER(c_double))]


class Allocator(ctypes.Structure):
    _fields_ = [("allocate", c_void_p), ("release", c_void_p), ("user", c_void_p)]


# The library calls it during long work; a result other than 0 ends the work. It ignores the stage and numbers that the
# library passes: a function may take fewer arguments than it is called with.
Progress = ctypes.CFUNCTYPE(c_int)


class ContextOptions(ctypes.Structure):
    _fields_ = [("threads", c_int), ("memory_limit", c_size_t), ("allocator", Allocator), ("log", c_void_p),
                ("log_user", c_void_p), ("progress", Progress), ("progress_user", c_void_p)]


class Kernels(ctypes.Structure):
    _fields_ = [("x", c_void_p), ("y", c_void_p), ("z", c_void_p)]


class KernelFactor(ctypes.Structure):
    _fields_ = [("kind", c_int), ("sigma2", c_double), ("first_col", c_int64), ("n_cols", c_int64)]


class Scaling(ctypes.Structure):
    _fields_ = [("normalize", c_int), ("keep", c_double), ("frozen", c_int)]


class BatchOptions(ctypes.Structure):
    _fields_ = [("ridge", c_double), ("method", c_int), ("tolerance", c_double)]


class GcmOptions(ctypes.Structure):
    _fields_ = [("regression", c_int), ("combine", c_int), ("sharpness", c_double), ("batch", BatchOptions),
                ("previous_x", c_char_p), ("previous_y", c_char_p), ("previous_weights", c_void_p), ("holdout", c_void_p)]


class MeasureOptions(ctypes.Structure):
    _fields_ = [("kind", c_int), ("estimator", c_int), ("kernels", Kernels), ("kernel_x", c_char_p), ("kernel_y", c_char_p),
                ("kernel_z", c_char_p), ("sigma2_x", c_double), ("normalize_x", c_int), ("sigma2_y", POINTER(c_double)),
                ("n_sigma2_y", c_int64), ("sigma2_z", c_double), ("per_dimension", c_int), ("ridge", POINTER(c_double)),
                ("n_ridge", c_int64), ("epsilon", c_double), ("method", c_int), ("tolerance", c_double), ("rff_features", c_int64),
                ("dtype", c_int), ("regress_z_on_holdout", c_int), ("gcm_regression", c_int), ("gcm_combine", c_int),
                ("gcm_sharpness", c_double), ("gcm_previous_batch", c_int), ("seed", c_uint64), ("workspace", c_void_p)]


class Metadata(ctypes.Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class Random(ctypes.Structure):
    _fields_ = [("seed", c_uint64), ("stream", c_uint64)]


class BlockOptions(ctypes.Structure):
    _fields_ = [("block_rows", c_int64), ("blocks", c_int64), ("seconds", c_double), ("seed", c_uint64)]


class BlockResult(ctypes.Structure):
    _fields_ = [("value", c_double), ("standard_error", c_double), ("blocks", c_int64), ("block_rows", c_int64),
                ("seconds", c_double)]


# Computes the measure of some rows; a result other than 0 ends the work.
BlockFn = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_int64), c_int64, POINTER(c_double))


class TestPlan(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("seconds", c_double), ("bytes", c_double)]


class TestOptions(ctypes.Structure):
    _fields_ = [("method", c_int), ("null", c_int), ("draws", c_int64), ("seed", c_uint64), ("alpha", c_double),
                ("skip_checks", c_int), ("kernel_x", c_void_p), ("kernel_y", c_void_p), ("kernel_z", c_void_p),
                ("weights", c_void_p), ("width", POINTER(c_double)), ("n_width", c_int64), ("ridge", POINTER(c_double)),
                ("n_ridge", c_int64), ("undersmoothing", c_double), ("regressor", c_int), ("max_rank", c_int64),
                ("auxiliary_y", c_char_p), ("auxiliary_z", c_char_p), ("mean", c_int), ("test_share", c_double),
                ("features_x", c_int64), ("features_y", c_int64), ("features_z", c_int64),
                ("transform", c_int), ("groups", c_void_p), ("time", c_void_p), ("memory", c_void_p), ("block", c_double),
                ("fitted_x", c_char_p), ("fitted_z", c_char_p), ("device", c_void_p)]


class Question(ctypes.Structure):
    _fields_ = [("x", c_char_p), ("y", c_char_p), ("z", c_char_p)]


class TestRegression(ctypes.Structure):
    _fields_ = [("used", c_int), ("sigma2_multiple", c_double), ("ridge_chosen", c_double), ("ridge", c_double),
                ("loo_error", c_double), ("degrees", c_double), ("rows", c_int64), ("rank", c_int64), ("left_out", c_double),
                ("remaining", c_double), ("check_p", c_double), ("basis", c_char * 48)]


class TestResult(ctypes.Structure):
    _fields_ = [("method", c_int), ("null", c_int), ("statistic", c_double), ("p_value", c_double), ("n", c_int64),
                ("n_used", c_int64), ("n_tested", c_int64), ("n_train", c_int64), ("draws", c_int64), ("seconds", c_double),
                ("null_mean", c_double), ("null_sd", c_double), ("x", TestRegression), ("z", TestRegression),
                ("rank_x", c_int64), ("rank_z", c_int64), ("left_out_x", c_double), ("left_out_z", c_double),
                ("kernel_x", c_char * 192), ("kernel_y", c_char * 192), ("kernel_z", c_char * 192), ("trust", c_int),
                ("verdict", c_char * 640), ("effective_rows", c_double), ("robust_p", c_double), ("mid_p", c_double),
                ("misfit", c_double), ("within_p", c_double), ("within_share", c_double), ("expected_count", c_double),
                ("blocks", c_int64), ("block_length", c_double), ("imputations", c_int64), ("on_device", c_int)]


class Calibration(ctypes.Structure):
    _fields_ = [("level", c_double), ("level_lower", c_double), ("level_upper", c_double), ("uniform_p", c_double),
                ("trust", c_int), ("verdict", c_char * 640)]


class Effect(ctypes.Structure):
    _fields_ = [("value", c_double), ("lower", c_double), ("upper", c_double), ("chance", c_double)]


class Effects(ctypes.Structure):
    _fields_ = [("kpc", Effect), ("circe", Effect), ("rows", c_int64), ("seconds", c_double)]


class Option(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("offset", c_size_t), ("required", c_int), ("letter", c_char),
                ("value", c_char_p), ("words", c_char_p), ("fallback", c_char_p), ("low", c_double), ("high", c_double),
                ("unit", c_char_p), ("group", c_char_p), ("help", c_char_p)]


class Schema(ctypes.Structure):
    _fields_ = [("job", c_char_p), ("bytes", c_size_t), ("rows", POINTER(Option)), ("n", c_size_t)]


WatchProgress = ctypes.CFUNCTYPE(c_int, c_void_p, c_double, c_char_p)
WatchWarning = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Watch(ctypes.Structure):
    _fields_ = [("user", c_void_p), ("progress", WatchProgress), ("warning", WatchWarning), ("note", WatchWarning)]


class Notes(ctypes.Structure):
    _fields_ = [("text", POINTER(c_char_p)), ("n", c_size_t)]


class ColumnsRead(ctypes.Structure):
    _fields_ = [("column", c_void_p), ("n", c_size_t)]


class Training(ctypes.Structure):
    _fields_ = [("model", c_void_p), ("path", c_char_p), ("data", c_char_p), ("network", c_char_p),
                ("regularizer", c_char_p), ("images", c_char_p), ("target", c_char_p), ("given", c_char_p),
                ("invariant_to", c_char_p), ("given_is_target", c_int), ("regularised", c_int), ("gamma", c_double),
                ("seed", c_int64), ("rows", c_int64), ("dropped", c_int64), ("training_rows", c_int64),
                ("validation_rows", c_int64), ("holdout_rows", c_int64), ("columns", ColumnsRead), ("parameters", c_int64),
                ("epochs", c_int64), ("steps", c_int64), ("best_epoch", c_int64), ("stopped_early", c_int),
                ("resumed", c_int), ("seconds", c_double), ("regularizer_seconds", c_double),
                ("history", POINTER(c_double)), ("outputs", c_int64), ("classes", POINTER(c_char_p)), ("errors", c_void_p),
                ("loss", c_double), ("r2", c_double), ("spread", c_double), ("accuracy", c_double), ("majority", c_double),
                ("floor", c_double), ("floor_rows", c_int64), ("dependence", c_double * 12), ("measured_rows", c_int64),
                ("warnings", Notes)]


TRAINING_EPOCH = ("loss", "regularizer", "validation_loss", "validation_regularizer", "rate", "gamma", "seconds",
                  "mean_kernel", "spread")


class ExperimentEntry(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("path", c_char_p), ("title", c_char_p), ("error", c_char_p)]


class PredictionError(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("mse", c_double), ("r2", c_double), ("accuracy", c_double), ("rows", c_int64)]


class Predictions(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("outputs", c_int64), ("values", POINTER(c_double)), ("names", POINTER(c_char_p)),
                ("target", c_char_p), ("rows_without", c_int64), ("columns", ColumnsRead),
                ("errors", POINTER(PredictionError)), ("n_errors", c_int64), ("warnings", Notes),
                ("seconds", c_double)]


_handle, _out, _mat, _text = c_void_p, POINTER(c_void_p), c_void_p, c_char_p
_value = POINTER(c_double)
_index = c_void_p  # int64_t *

# Every function that Python calls: its result ("status", or a C type) and its arguments.
SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "circe_version": (_text,),
    "circe_build_info": (_text,),
    "circe_blas_name": (_text,),
    "circe_blas_core": (_text,),
    "circe_blas_note": (_text,),
    "circe_last_error": (_text,),
    # contexts
    "circe_context_options_init": (None, POINTER(ContextOptions)),
    "circe_context_create": ("status", POINTER(ContextOptions), _out),
    "circe_context_destroy": (None, _handle),
    "circe_context_threads": (c_int, _handle),
    "circe_set_thread_limit": (None, c_int),
    "circe_thread_limit": (c_int,),
    "circe_workspace_create": ("status", _handle, _out),
    "circe_workspace_destroy": (None, _handle),
    # kernels
    "circe_kernel_parse": ("status", _handle, _text, _out),
    "circe_kernel_destroy": (None, _handle),
    "circe_kernel_n_factors": (c_int64, _handle),
    "circe_kernel_get_factor": ("status", _handle, c_int64, POINTER(KernelFactor)),
    "circe_kernel_n_free": (c_int64, _handle),
    "circe_kernel_bind": ("status", _handle, c_double),
    "circe_kernel_bind_median": ("status", _handle, _mat),
    "circe_kernel_text": (_text, _handle),
    "circe_median_sigma2": ("status", _handle, _mat, c_int64, c_int64, _value),
    "circe_gram": ("status", _handle, _handle, _mat, _mat, _mat),
    "circe_scale": ("status", _handle, _handle, POINTER(Scaling), _mat, c_void_p, c_void_p, _mat),
    "circe_scale_gradient": ("status", _handle, _handle, POINTER(Scaling), _mat, c_void_p, _mat),
    # the conditional mean
    "circe_cme_options_init": (None, POINTER(CmeOptions)),
    "circe_cme_fit": ("status", _handle, _mat, _mat, _handle, _handle, POINTER(CmeOptions), _out),
    "circe_cme_destroy": (None, _handle),
    "circe_cme_get_info": ("status", _handle, POINTER(CmeInfo)),
    "circe_cme_get_loo": ("status", _handle, POINTER(LooTable)),
    "circe_cme_n_warnings": (c_int64, _handle),
    "circe_cme_warning": (_text, _handle, c_int64),
    "circe_cme_kernel_y": (_handle, _handle),
    "circe_cme_kernel_z": (_handle, _handle),
    "circe_cme_save": ("status", _handle, _text),
    "circe_cme_save_with": ("status", _handle, _text, POINTER(Metadata), c_int64),
    "circe_tensor_file_open": ("status", _handle, _text, _out),
    "circe_tensor_file_close": (None, _handle),
    "circe_tensor_file_metadata": (_text, _handle, _text),
    "circe_cme_load": ("status", _handle, _text, _out),
    "circe_residual_gram": ("status", _handle, _handle, _mat, _mat, _mat),
    "circe_cme_mean": ("status", _handle, _handle, _mat, _mat),
    "circe_cme_rff_step": ("status", _handle, c_int64),
    "circe_features_create": ("status", _handle, _handle, _mat, _mat, c_int, _out),
    "circe_features_destroy": (None, _handle),
    "circe_features_get": ("status", _handle, _mat, _mat),
    "circe_transform_columns": ("status", _handle, _mat, c_int, c_char_p, _mat),
    # measures
    "circe_measure_options_init": (None, POINTER(MeasureOptions), c_int),
    "circe_measure_find": (c_int, _text),
    "circe_measure_create": ("status", _handle, POINTER(MeasureOptions), _out),
    "circe_measure_destroy": (None, _handle),
    "circe_measure_set_mean": ("status", _handle, _handle),
    "circe_measure_bind_features": ("status", _handle, _handle),
    "circe_workspace_set_weights": ("status", _handle, c_void_p, c_int64),
    "circe_measure_set_weights": ("status", _handle, c_void_p, c_int64),
    "circe_measure_points": ("status", _handle, _mat, _mat, _mat, _value, _mat),
    "circe_measure_evaluate": ("status", _handle, _index, c_int64, _mat, _value, _mat),
    "circe_batch_options_init": (None, POINTER(BatchOptions)),
    "circe_gcm_options_init": (None, POINTER(GcmOptions)),
    "circe_measure_gcm": ("status", _handle, _handle, _mat, _mat, _mat, POINTER(GcmOptions), _value, _mat),
    # tests
    "circe_test_options_init": (None, POINTER(TestOptions)),
    "circe_test_method_parse": ("status", _text, POINTER(c_int)),
    "circe_test_null_parse": ("status", _text, POINTER(c_int)),
    "circe_test_method_name": (_text, c_int),
    "circe_test_null_name": (_text, c_int),
    "circe_trust_name": (_text, c_int),
    "circe_random_subset": (None, Random, c_int64, c_int64, c_void_p),
    "circe_measure_blocks": ("status", _handle, c_int64, POINTER(BlockOptions), BlockFn, c_void_p, POINTER(BlockResult)),
    "circe_test_memory_create": ("status", _handle, c_double, _out),
    "circe_test_memory_destroy": (None, _handle),
    "circe_test_foresee": ("status", _handle, _mat, _mat, _mat, POINTER(TestOptions), c_double, POINTER(TestPlan)),
    "circe_test": ("status", _handle, _mat, _mat, _mat, POINTER(TestOptions), POINTER(TestResult)),
    "circe_test_impute": ("status", _handle, _mat, _mat, _mat, POINTER(TestOptions), c_int64, POINTER(TestResult)),
    "circe_test_calibrate": ("status", _handle, _mat, _mat, _mat, POINTER(TestOptions), c_int64, c_void_p),
    "circe_calibration_summary": ("status", c_void_p, c_int64, c_double, c_int64, c_void_p, POINTER(Calibration)),
    "circe_test_effects": ("status", _handle, _mat, _mat, _mat, POINTER(TestOptions), c_int64, POINTER(Effects)),
    "circe_test_along": ("status", _handle, _mat, _mat, _mat, POINTER(TestOptions), c_int64, c_int64, c_void_p, c_void_p,
                         c_void_p, c_void_p, c_void_p),
    # on a GPU: pointers refer to the device
    "circe_cuda_open": ("status", _handle, c_int, c_void_p, _out),
    "circe_cuda_close": (None, _handle),
    "circe_cuda_test_device": ("status", _handle, _out),
    "circe_test_device_destroy": (None, _handle),
    "circe_cuda_scale_bytes": (c_size_t, c_int64, c_int64),
    "circe_cuda_scale": ("status", _handle, _handle, POINTER(Scaling), _mat, c_void_p, c_void_p, c_void_p, _mat),
    "circe_cuda_scale_gradient": ("status", _handle, _handle, POINTER(Scaling), _mat, c_void_p, c_void_p, _mat),
    "circe_measure_to_cuda": ("status", _handle, _handle, c_int64, c_int64, c_int64),
}

# The same for libcirce_jobs.
JOB_SIGNATURES: Dict[str, Tuple[Any, ...]] = {
    "circe_schema_of": (POINTER(Schema), _text),
    "circe_schema_nearest": (_text, POINTER(Schema), _text),
    "circe_options_init": (None, POINTER(Schema), c_void_p),
    "circe_options_set": ("status", POINTER(Schema), c_void_p, _text, _text),
    "circe_tests_run": ("status", _handle, _handle, _text, POINTER(Question), c_int64, c_void_p, POINTER(Watch), _out),
    "circe_tests_result_free": (None, _handle),
    "circe_tests_json": (c_void_p, _handle),
    "circe_train": ("status", _handle, _handle, c_void_p, POINTER(Watch), _out),
    "circe_training_free": (None, _handle),
    "circe_training_json": (c_void_p, _handle, _text),
    "circe_training_report": ("status", _handle, _handle, _text),
    "circe_model_load": ("status", _handle, _text, _out),
    "circe_model_save": ("status", _handle, _handle, _text),
    "circe_model_free": (None, _handle),
    "circe_predict": ("status", _handle, _handle, _handle, c_void_p, POINTER(Watch), _out),
    "circe_predictions_free": (None, _handle),
    "circe_predictions_compare": ("status", _handle, _handle, c_void_p, POINTER(Watch)),
    "circe_data": ("status", _handle, _text, c_void_p, POINTER(Watch), c_void_p),
    "circe_audit": ("status", _handle, _handle, c_void_p, POINTER(Watch), _out),
    "circe_audit_result_free": (None, _handle),
    "circe_audit_json": (c_void_p, _handle),
    "circe_audit_report": ("status", _handle, _text),
    "circe_sweep": ("status", _handle, _handle, c_void_p, c_void_p, POINTER(Watch), _out),
    "circe_sweep_result_free": (None, _handle),
    "circe_sweep_json": (c_void_p, _handle),
    "circe_experiment": ("status", _handle, _text, c_void_p, POINTER(Watch), _out),
    "circe_experiment_result_free": (None, _handle),
    "circe_experiment_json": (c_void_p, _handle),
    "circe_experiment_list": ("status", POINTER(POINTER(ExperimentEntry)), POINTER(c_int64)),
    "circe_experiment_list_free": (None, POINTER(ExperimentEntry)),
    "circe_text_free": (None, c_void_p),
    "circe_table_create": ("status", c_int64, _out),
    "circe_table_free": (None, _handle),
    "circe_table_add_numbers": ("status", _handle, _text, c_void_p, c_int64),
    "circe_table_add_booleans": ("status", _handle, _text, c_void_p, c_int64),
    "circe_table_add_texts": ("status", _handle, _text, POINTER(c_char_p)),
    "circe_table_add_categories": ("status", _handle, _text, POINTER(c_char_p)),
}


class Library:
    """A loaded library. An attribute is a C function, with its signature set at first use."""

    def __init__(self, path: str, signatures: Dict[str, Tuple[Any, ...]]):
        self.path, self._signatures = path, signatures
        try:
            self._dll = ctypes.CDLL(path)
        except OSError as error:
            name = os.path.basename(path).partition(".")[0]
            raise errors.VersionError(f"{name} could not be loaded: {error}. Install the package (pip install . in its "
                                      "sources), or let CIRCE_LIBRARY name the libcirce.so.0 of a build") from None

    def __getattr__(self, name: str):
        if name not in self._signatures:
            raise AttributeError(name)
        result, *arguments = self._signatures[name]
        try:
            function = self._dll[name]
        except AttributeError:
            raise errors.VersionError(f"{self.path} has no function {name}: it is older than this package") from None
        function.argtypes = arguments
        function.restype = c_int if result == "status" else result
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
    loaded = Library(_library_path(), SIGNATURES)
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
                _jobs = Library(beside, JOB_SIGNATURES)
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


def choice(table: dict, name: str, value) -> int:
    """The number of a word, or an ArgumentError that lists the words."""
    number = table.get(value) if isinstance(value, str) else None
    if number is None:
        raise errors.ArgumentError(f"{name} is {value!r}; it must be one of {', '.join(table)}")
    return number
