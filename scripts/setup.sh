#!/bin/sh
# Installs what is missing on Debian or Ubuntu, and nothing where all is there. Usage: setup.sh build|check|fuzz|tsan|lint|bench|python|cuda|mpi
set -eu

optional=""
case "${1:-build}" in
build) packages="gcc g++ make cmake ninja-build pkg-config libopenblas-openmp-dev librandom123-dev libcjson-dev
                 libzip-dev libyaml-dev libpng-dev libturbojpeg0-dev libdnnl-dev libcmocka-dev gnuplot-nox python3" ;;
check)
    packages="python3-numpy python3-pytest"
    optional="python3-torch" # where the system offers it
    ;;
fuzz) packages="clang cmake ninja-build" ;;
tsan) packages="clang libomp-dev" ;;
lint) packages="clang-format clang-tidy cppcheck" ;;
bench) packages="python3-venv gnuplot-nox" ;;
python) packages="python3-venv" ;;
cuda) packages="g++ cmake ninja-build python3-venv" ;;
mpi) packages="libopenmpi-dev openmpi-bin libscalapack-openmpi-dev" ;;
*)
    echo "setup.sh: '$1' is none of build, check, fuzz, tsan, lint, bench, python, cuda, mpi" >&2
    exit 2
    ;;
esac

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

# The runtimes of libFuzzer and the sanitizers are a package of the default clang's version.
if { [ "${1:-build}" = fuzz ] || [ "${1:-build}" = tsan ]; } && command -v clang >/dev/null; then
    packages="$packages libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is no Debian or Ubuntu; make sure that these are there, under your system's names:" $packages >&2
else
    missing=""
    sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    for package in $packages; do
        installed "$package" || missing="$missing $package"
    done
    if [ -n "$missing" ]; then
        echo "setup: installing$missing${sudo:+ (asks for your password)}"
        $sudo apt-get update -q
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
        # clang may just have come, and its runtime is still to be named
        if [ "${1:-build}" = fuzz ] || [ "${1:-build}" = tsan ]; then
            runtime="libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
            installed "$runtime" || $sudo apt-get install -q -y --no-install-recommends "$runtime"
        fi
    fi
    # What is optional may be missing, or fail to come: its tests are skipped then.
    for package in $optional; do
        if ! installed "$package" && apt-cache show "$package" >/dev/null 2>&1; then
            echo "setup: installing $package"
            $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$package" ||
                echo "setup: $package could not be installed; its tests will be skipped" >&2
        fi
    done
fi

if [ "${1:-build}" = bench ] && [ ! -e .venv/ready ]; then
    python3 -m venv .venv
    .venv/bin/pip install -q --require-hashes -r bench/requirements.txt
    touch .venv/ready
fi

if [ "${1:-build}" = python ] && [ ! -e .venv/python-ready ]; then
    python3 -m venv .venv
    .venv/bin/pip install -q --require-hashes -r python/requirements.txt
    touch .venv/python-ready
fi

# An installed CUDA toolkit with cuDNN serves; without one, NVIDIA's own packages of the compiler, the runtime, cuBLAS,
# cuSOLVER and cuDNN, from PyPI, under .cuda, where cmake/Cuda.cmake and the library look. A driver or a GPU is not needed to build.
if [ "${1:-build}" = cuda ] && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ] &&
    { [ ! -x .cuda/bin/nvcc ] || [ ! -e .cuda/include/cusolverDn.h ] || [ ! -e .cuda/include/cudnn.h ]; }; then
    python3 -m venv .cuda/venv
    .cuda/venv/bin/pip install -q --require-hashes -r scripts/requirements-cuda.txt
    for root in .cuda/venv/lib/python3*/site-packages/nvidia/cu13; do
        ln -sfn lib "$root/lib64" # where nvcc looks, and the name that CMake looks for
        ln -sfn libcudart.so.13 "$root/lib/libcudart.so"
        for file in "$root"/../cudnn/include/*.h "$root"/../cudnn/lib/*.so.*; do
            ln -sfn "../../${file#"$root/../"}" "$root/$(basename "$(dirname "$file")")/"
        done
    done
    for folder in .cuda/venv/lib/python3*/site-packages/nvidia/cu13/*; do
        ln -sfn "$PWD/$folder" ".cuda/$(basename "$folder")"
    done
    echo "setup: nvcc is .cuda/bin/nvcc"
fi
