"""libcirce's tests by ctypes: the structures of include/circe/test.h and one function, test()."""

import ctypes
import os

import numpy as np

METHODS = {"kci": 1, "circe": 2, "splitkci": 3, "gcm": 4, "rcot": 5, "hsic": 6}
NULLS = {"auto": 0, "gamma": 1, "spectral": 2, "wild": 3, "permutation": 4, "normal": 5, "multiplier": 6}
MEANS = {"auto": 0, "rows": 1, "split": 2}
TRUST = {1: "good", 2: "doubtful", 3: "poor"}


class Mat(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("cols", ctypes.c_int64),
        ("ld", ctypes.c_int64),
        ("dtype", ctypes.c_int),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("method", ctypes.c_int),
        ("null", ctypes.c_int),
        ("draws", ctypes.c_int64),
        ("seed", ctypes.c_uint64),
        ("alpha", ctypes.c_double),
        ("skip_checks", ctypes.c_int),
        ("kernel_x", ctypes.c_void_p),
        ("kernel_y", ctypes.c_void_p),
        ("kernel_z", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("width", ctypes.c_void_p),
        ("n_width", ctypes.c_int64),
        ("ridge", ctypes.c_void_p),
        ("n_ridge", ctypes.c_int64),
        ("undersmoothing", ctypes.c_double),
        ("regression", ctypes.c_int),
        ("max_rank", ctypes.c_int64),
        ("auxiliary_y", ctypes.POINTER(Mat)),
        ("auxiliary_z", ctypes.POINTER(Mat)),
        ("mean", ctypes.c_int),
        ("test_share", ctypes.c_double),
        ("features_x", ctypes.c_int64),
        ("features_y", ctypes.c_int64),
        ("features_z", ctypes.c_int64),
    ]


class Regression(ctypes.Structure):
    _fields_ = [
        ("used", ctypes.c_int),
        ("sigma2_multiple", ctypes.c_double),
        ("ridge_chosen", ctypes.c_double),
        ("ridge", ctypes.c_double),
        ("loo_error", ctypes.c_double),
        ("degrees", ctypes.c_double),
        ("rows", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("left_out", ctypes.c_double),
        ("remaining", ctypes.c_double),
        ("check_p", ctypes.c_double),
    ]


class Result(ctypes.Structure):
    _fields_ = [
        ("method", ctypes.c_int),
        ("null", ctypes.c_int),
        ("statistic", ctypes.c_double),
        ("p_value", ctypes.c_double),
        ("n", ctypes.c_int64),
        ("n_used", ctypes.c_int64),
        ("n_tested", ctypes.c_int64),
        ("n_train", ctypes.c_int64),
        ("draws", ctypes.c_int64),
        ("seconds", ctypes.c_double),
        ("null_mean", ctypes.c_double),
        ("null_sd", ctypes.c_double),
        ("x", Regression),
        ("z", Regression),
        ("rank_x", ctypes.c_int64),
        ("rank_z", ctypes.c_int64),
        ("left_out_x", ctypes.c_double),
        ("left_out_z", ctypes.c_double),
        ("kernel_x", ctypes.c_char * 192),
        ("kernel_y", ctypes.c_char * 192),
        ("kernel_z", ctypes.c_char * 192),
        ("trust", ctypes.c_int),
        ("verdict", ctypes.c_char * 640),
    ]


class Library:
    """A loaded libcirce with a context of its own."""

    def __init__(self, path, threads=1):
        self.lib = ctypes.CDLL(os.path.abspath(path))
        self.lib.circe_last_error.restype = ctypes.c_char_p
        self.context = ctypes.c_void_p()

        class ContextOptions(ctypes.Structure):
            _fields_ = [("threads", ctypes.c_int), ("rest", ctypes.c_void_p * 16)]

        options = ContextOptions()
        self.lib.circe_context_options_init(ctypes.byref(options))
        options.threads = threads
        self.check(self.lib.circe_context_create(ctypes.byref(options), ctypes.byref(self.context)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.circe_last_error().decode())

    def kernel(self, text):
        kernel = ctypes.c_void_p()
        self.check(self.lib.circe_kernel_parse(self.context, text.encode(), ctypes.byref(kernel)))
        return kernel

    def options(self, method="kci", null="auto", mean="auto", **fields):
        """Options, and the objects that must live as long."""
        options, kept = Options(), []
        self.lib.circe_test_options_init(ctypes.byref(options))
        options.method, options.null, options.mean = METHODS[method], NULLS[null], MEANS[mean]
        for name, value in fields.items():
            if value is None:
                continue
            if name.startswith("kernel"):
                value = self.kernel(value)
            elif name == "weights":
                value = np.ascontiguousarray(value, float)
                kept.append(value)
                value = value.ctypes.data
            elif name in ("width", "ridge"):
                value = np.ascontiguousarray(value, float)
                kept.append(value)
                setattr(options, "n_" + name, len(value))
                value = value.ctypes.data
            elif name.startswith("auxiliary"):
                array = matrix(value)
                kept.append(array)
                value = ctypes.pointer(view(array))
            elif name == "regression":
                value = {"kernel": 1, "linear": 2}[value]
            setattr(options, name, value)
        return options, kept

    def free_kernels(self, options):
        for name in ("kernel_x", "kernel_y", "kernel_z"):
            if getattr(options, name):
                self.lib.circe_kernel_destroy(ctypes.c_void_p(getattr(options, name)))

    def test(self, x, y, z, method="kci", **fields):
        options, kept = self.options(method, **fields)
        x, y, z = matrix(x), None if y is None else matrix(y), matrix(z)
        result = Result()
        views = view(x), None if y is None else view(y), view(z)
        status = self.lib.circe_test(
            self.context,
            ctypes.byref(views[0]),
            None if y is None else ctypes.byref(views[1]),
            ctypes.byref(views[2]),
            ctypes.byref(options),
            ctypes.byref(result),
        )
        self.free_kernels(options)
        self.check(status)
        del kept
        return result


def matrix(array):
    array = np.ascontiguousarray(array, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def view(array):
    return Mat(array.ctypes.data, array.shape[0], array.shape[1], max(array.shape[1], 1), 2)
