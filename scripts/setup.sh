#!/bin/sh
# Installs what is missing on Debian or Ubuntu, and nothing where all is there. Usage: setup.sh build|fuzz|tsan|lint|bench|cuda
set -eu

case "${1:-build}" in
build) packages="gcc g++ make cmake ninja-build pkg-config libopenblas-openmp-dev librandom123-dev libcjson-dev
                 libzip-dev libyaml-dev libpng-dev libturbojpeg0-dev libdnnl-dev libcmocka-dev gnuplot-nox python3" ;;
fuzz) packages="clang cmake ninja-build" ;;
tsan) packages="clang libomp-dev" ;;
lint) packages="clang-format clang-tidy cppcheck" ;;
bench) packages="python3-venv gnuplot-nox" ;;
cuda) packages="g++ cmake ninja-build python3-venv" ;;
*)
    echo "setup.sh: '$1' is none of build, fuzz, tsan, lint, bench, cuda" >&2
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
    for package in $packages; do
        installed "$package" || missing="$missing $package"
    done
    if [ -n "$missing" ]; then
        sudo=""
        if [ "$(id -u)" != 0 ]; then
            sudo="sudo"
            echo "setup: installing$missing (asks for your password)"
        else
            echo "setup: installing$missing"
        fi
        $sudo apt-get update -q
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
        # clang may just have come, and its runtime is still to be named
        if [ "${1:-build}" = fuzz ] || [ "${1:-build}" = tsan ]; then
            runtime="libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
            installed "$runtime" || $sudo apt-get install -q -y --no-install-recommends "$runtime"
        fi
    fi
fi

if [ "${1:-build}" = bench ] && [ ! -e .venv/ready ]; then
    python3 -m venv .venv
    .venv/bin/pip install -q -r bench/requirements.txt
    touch .venv/ready
fi

# An installed CUDA toolkit serves; without one, NVIDIA's own packages of the compiler and the runtime, from PyPI, under
# .cuda, where cmake/Cuda.cmake looks. A driver or a GPU is not needed to build.
if [ "${1:-build}" = cuda ] && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ] && [ ! -x .cuda/bin/nvcc ]; then
    python3 -m venv .cuda/venv
    .cuda/venv/bin/pip install -q 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' \
        'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*'
    for folder in .cuda/venv/lib/python3*/site-packages/nvidia/cu13/*; do
        ln -sfn "$PWD/$folder" ".cuda/$(basename "$folder")"
    done
    echo "setup: nvcc is .cuda/bin/nvcc"
fi
