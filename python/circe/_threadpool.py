"""The library among the thread pools of threadpoolctl, if that is installed.

libcirce follows the numbers of threads of OpenMP and of the BLAS, but only where a limit lowers them: under
OMP_NUM_THREADS=1 they are 1 before and after, whatever circe.set_threads asked for."""

from __future__ import annotations

import ctypes


def register() -> None:
    try:
        import threadpoolctl

        base, add = threadpoolctl.LibController, threadpoolctl.register
    except (ImportError, AttributeError):  # none, or older than 3.2
        return

    class CirceController(base):
        user_api = internal_api = "circe"
        filename_prefixes = ("libcirce.so",)
        check_symbols = ("circe_set_thread_limit", "circe_thread_limit")

        def get_num_threads(self):
            return self.dynlib.circe_thread_limit()

        def set_num_threads(self, num_threads):
            self.dynlib.circe_set_thread_limit(num_threads)

        def get_version(self):
            version = self.dynlib.circe_version
            version.restype = ctypes.c_char_p
            return version().decode()

    add(CirceController)
