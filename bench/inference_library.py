"""circe's Python package on a library that is named, with one function: test()."""

import os
import sys
from pathlib import Path


class Library:
    def __init__(self, path, threads=1):
        os.environ["CIRCE_LIBRARY"] = os.path.abspath(path)
        sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))
        import circe

        circe.set_threads(threads)
        self.circe = circe

    def test(self, x, y, z, method="kci", skip_checks=0, auxiliary_y=None, auxiliary_z=None, **options):
        if auxiliary_y is not None:
            options["auxiliary"] = auxiliary_y, auxiliary_z
        return self.circe.test(x, y, z, method=method, checks=not skip_checks, **options)
