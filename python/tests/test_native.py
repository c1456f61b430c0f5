"""The ABI: what is read from the headers against the C compiler, the handshake, the errors, the time an import takes."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import circe
from circe import _headers, _native, errors

from conftest import SOURCE, run_python

HEADERS = SOURCE / "include" / "circe"
needs_headers = pytest.mark.skipif(not HEADERS.is_dir(), reason="no headers here: not in the source tree")

STRUCTURES = ("mat", "cme_options", "cme_info", "loo_table", "context_options", "kernels", "kernel_factor", "scaling", "batch_options",
              "gcm_options", "measure_options", "test_options", "test_plan", "test_result", "calibration", "effects", "metadata",
              "random", "block_options", "block_result", "question", "option", "schema", "watch", "training", "training_epoch",
              "predictions", "prediction_error", "experiment_entry")


def test_functions_are_declared_as_in_the_headers():
    declared = _headers.functions()
    assert len(declared) > 200
    address, number, text = ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p
    assert declared["circe_measure_evaluate"] == (ctypes.c_int, address, address, number, address, address, address)
    assert declared["circe_features_create"] == (ctypes.c_int, *4 * [address], ctypes.c_int, ctypes.POINTER(address))
    assert declared["circe_training_json"] == (address, address, text)  # a text that is to be freed
    assert declared["circe_kernel_text"] == (text, address)
    assert declared["circe_random_subset"] == (None, _native.Random, number, number, address)
    assert declared["circe_cuda_scale_bytes"] == (ctypes.c_size_t, number, number)
    assert declared["circe_thread_limit"] == (ctypes.c_int,)


def test_every_function_is_in_the_library():
    for name in _headers.functions():
        assert hasattr(_native.jobs(), name) or hasattr(_native.library(), name), name


@needs_headers
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_structures_are_laid_out_as_in_c(tmp_path):
    lines = []
    structures = {f"circe_{name}": _headers.structure(f"circe_{name}") for name in STRUCTURES}
    for name, structure in structures.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for field, _ in structure._fields_]
    source = tmp_path / "layout.c"
    source.write_text("#include <circe/circe.h>\n#include <circe/jobs.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {" +
                      "\n".join(lines) + "return 0; }\n")
    subprocess.run(["cc", f"-I{HEADERS.parent}", str(source), "-o", str(tmp_path / "layout")], check=True)
    printed = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout
    measured = dict(line.split() for line in printed.splitlines())
    for name, structure in structures.items():
        assert ctypes.sizeof(structure) == int(measured[name]), name
        for field, _ in structure._fields_:
            assert getattr(structure, field).offset == int(measured[f"{name}.{field}"]), f"{name}.{field}"
    packed = _native.mat(1, 2, 3, 4, 5)
    assert len(packed) == int(measured["circe_mat"])
    view = _native.Mat.from_buffer_copy(packed)
    assert (view.data, view.rows, view.cols, view.ld, view.dtype) == (1, 2, 3, 4, 5)


@needs_headers
def test_every_status_has_its_exception():
    text = (HEADERS / "status.h").read_text()
    statuses = {int(number) for _, number in re.findall(r"X\((ERR_\w+), (\d+)", text)}
    assert statuses == set(errors.BY_STATUS)
    for kind in errors.BY_STATUS.values():
        assert issubclass(kind, circe.CirceError)


@needs_headers
def test_enumerations_are_numbered_as_in_c():
    text = "".join(header.read_text() for header in HEADERS.glob("*.h"))
    numbers = {name: int(number) for name, number in re.findall(r"(CIRCE_\w+) = (\d+),", text)}
    for table, prefix in ((_native.METHODS, "CIRCE_METHOD_"), (_native.ESTIMATORS, "CIRCE_"),
                          (_native.HSIC_ESTIMATORS, "CIRCE_HSIC_"), (_native.GCM_REGRESSIONS, "CIRCE_GCM_"), (_native.REGRESSORS, "CIRCE_REGRESSOR_"),
                          (_native.TEST_MEANS, "CIRCE_MEAN_")):
        for name, number in table.items():
            assert numbers[prefix + name.upper()] == number
    assert [numbers[f"CIRCE_GCM_{name}"] for name in ("MAX", "LOGSUMEXP", "SUM_OF_SQUARES")] == list(
        _native.GCM_COMBINES.values())


def test_type_checkers_see_every_name():
    text = Path(circe.__file__).read_text()
    assert set(circe.__all__) - {"build_info"} <= set(re.findall(r"(\w+) as \1\b", text)) and "circe as circe" in text


def test_star_keeps_the_package():
    names = {}
    exec("import circe\nfrom circe import *", names)
    assert names["circe"] is circe and names["hsic"] is circe.hsic and names["train"] is circe.train


@pytest.mark.skipif((Path(circe.__file__).parent / "_bundle").exists(), reason="the wheel has its own command")
def test_the_script_does_not_start_itself(tmp_path, monkeypatch):
    from circe import _command

    script = tmp_path / "circe"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.delenv("CIRCE_COMMAND", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _command.command_path() == str(script)
    monkeypatch.setattr("sys.argv", [str(script)])
    with pytest.raises(circe.CommandError, match="not found"):
        _command.command_path()


def test_defaults_come_through():
    options = _native.CmeOptions()
    _native.library().circe_cme_options_init(ctypes.byref(options))
    assert (options.tolerance, options.rff_pool, options.rff_batch, options.rff_every) == (1e-12, 1024, 512, 100)


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(_native, "VERSION", (99, 0))
    with pytest.raises(circe.VersionError, match="written for 99.0"):
        _native._load()


def test_a_missing_library_is_named(tmp_path):
    with pytest.raises(circe.VersionError, match="nowhere.so"):
        _native.Library(str(tmp_path / "nowhere.so"))


@pytest.mark.skipif(bool(os.environ.get("LD_PRELOAD")), reason="sanitizers take terabytes of address space")
def test_little_address_space_is_said():
    code = ("import resource, sys\n"
            "megabytes = int(sys.argv[1]) << 20\n"
            "resource.setrlimit(resource.RLIMIT_AS, (megabytes, megabytes))\n"
            "import circe\n"
            "try:\n    print(circe.build_info() and 'loaded')\n"
            "except MemoryError as error:\n    print(error)\n")
    for megabytes in (150, 250, 300, 330, 400):
        result = subprocess.run([sys.executable, "-c", code, str(megabytes)], capture_output=True, text=True, timeout=60,
                                env={**os.environ, "OMP_NUM_THREADS": "2"})
        assert "loaded" in result.stdout or "address space" in result.stdout, (megabytes, result.stdout, result.stderr)


def test_version():
    assert circe.__version__ == _native.library().circe_version().decode()
    assert circe.build_info()["version"] == circe.__version__


def test_blas_is_named():
    info = circe.build_info()
    assert info["blas"] == _native.library().circe_blas_name().decode() != ""
    assert info["blas_core"] == _native.library().circe_blas_core().decode()


def test_slow_kernels_of_blas_are_warned_of_once():
    with open("/proc/cpuinfo") as lines:
        if " avx2 " not in lines.read() or "OpenBLAS" not in circe.build_info()["blas"]:
            pytest.skip("needs OpenBLAS, and a processor newer than Prescott")
    code = ("import os; os.environ['OPENBLAS_CORETYPE'] = 'PRESCOTT'\n"  # before the library is loaded
            "import circe, warnings\n"
            "with warnings.catch_warnings(record=True) as caught:\n"
            "    warnings.simplefilter('always')\n"
            "    circe.hsic([1.0, 2, 3, 5], [1.0, 2, 3, 5]), circe.hsic([1.0, 2, 3, 5], [1.0, 2, 3, 5])\n"
            "print(*[w.message for w in caught if 'kernels for' in str(w.message)], sep='\\n')")
    texts = run_python(code).splitlines()
    assert len(texts) == 1 and texts[0].endswith("To make them faster, unset OPENBLAS_CORETYPE."), texts


def test_import_is_quick_and_brings_nothing_along():
    code = ("import sys, time; before = time.process_time(); import circe; print(time.process_time() - before); "
            "print([m for m in ('numpy', 'torch', 'sklearn', 'pandas') if m in sys.modules])")
    seconds, brought = [], "[]"
    for _ in range(3):
        first, brought = run_python(code).splitlines()
        seconds.append(float(first))
    assert min(seconds) < 0.15  # of processor time: a busy machine makes it no longer
    assert brought == "[]"


def test_names():
    assert "CirceError" in dir(circe) and "torch" in dir(circe)
    for name in circe.__all__:
        assert getattr(circe, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        circe.nonsense
