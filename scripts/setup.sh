#!/bin/sh
# Installs what is missing on Debian or Ubuntu. If nothing is missing, it does nothing.
# Usage: setup.sh build|check|r|blas|fuzz|tsan|lint|bench|python|wheel|cuda|mpi|matrix|aarch64|docs
# CIRCE_CHECK_TORCH=0 keeps `check` from installing PyTorch, CIRCE_CHECK_R=0 from installing R.
set -eu

what=${1:-build}
optional=""
case "$what" in
build) packages="gcc g++ make cmake ninja-build pkg-config libopenblas-openmp-dev librandom123-dev libcjson-dev
                 libzip-dev zlib1g-dev libyaml-dev libpng-dev libturbojpeg0-dev libdnnl-dev libcmocka-dev gnuplot-nox python3" ;;
check)
    packages="python3-numpy python3-pytest zsh"
    optional="python3-threadpoolctl python3-joblib" # where the system offers them
    [ "${CIRCE_CHECK_R:-1}" = 0 ] || optional="$optional r-base-core r-cran-knitr r-cran-markdown"
    [ "${CIRCE_CHECK_TORCH:-1}" = 0 ] || optional="$optional python3-torch"
    ;;
r) packages="r-base-core r-cran-knitr r-cran-markdown" ;;
blas) packages="libopenblas-pthread-dev libblis-openmp-dev libblas-dev liblapack-dev" ;; # the choices of CIRCE_BLAS
fuzz) packages="clang cmake ninja-build" ;;
tsan) packages="clang libomp-dev" ;;
lint) packages="clang-format clang-tidy cppcheck" ;;
bench) packages="python3-venv gnuplot-nox" ;;
python) packages="python3-venv" ;;
wheel) packages="gcc g++ cmake ninja-build pkg-config python3-venv debian-archive-keyring gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user" ;;
cuda) packages="g++ cmake ninja-build python3-venv" ;;
mpi) packages="libopenmpi-dev openmpi-bin libscalapack-openmpi-dev" ;;
matrix) packages="clang libomp-dev libopenblas-pthread-dev libblis-openmp-dev libblas-dev liblapack-dev" ;;
docs) packages="python3-sphinx python3-myst-parser furo python3-breathe doxygen python3-numpy" ;;
aarch64) packages="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user" ;;
*)
    echo "setup.sh: '$what' is none of build, check, r, blas, fuzz, tsan, lint, bench, python, wheel, cuda, mpi, matrix, aarch64, docs" >&2
    exit 2
    ;;
esac

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

# What apt-get would install for these packages: "N packages, M MB of disk space".
amount() {
    $sudo env LC_ALL=C apt-get install --assume-no --no-install-recommends "$@" 2>/dev/null |
        sed -n 's/.* \([0-9]*\) newly installed.*/\1 packages/p; s/After this operation, \(.*\) of additional disk.*/\1 of disk space/p' |
        paste -s -d , | sed 's/,\([^ ]\)/, \1/'
}

install() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 "$@"
}

# The runtimes of libFuzzer and the sanitizers are a package of the default clang's version.
clang_runtime() {
    if { [ "$what" = fuzz ] || [ "$what" = tsan ]; } && command -v clang >/dev/null; then
        echo "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
    fi
}

install_packages() {
    missing=""
    for package in $packages $(clang_runtime); do
        installed "$package" || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    echo "setup: installing$missing${sudo:+ (sudo may ask for your password)}"
    $sudo apt-get update -q
    echo "setup: that is $(amount $missing)"
    install $missing
    for package in $(clang_runtime); do # clang may have come only now
        installed "$package" || install "$package"
    done
}

# What is optional may be missing, or fail to install: its tests are skipped then.
install_optional() {
    for package in $optional; do
        if ! installed "$package" && apt-cache show "$package" >/dev/null 2>&1; then
            echo "setup: installing $package, for the tests that use it: $(amount "$package")."
            [ "$package" != python3-torch ] || echo "setup: To leave PyTorch out and skip these tests, set CIRCE_CHECK_TORCH=0."
            [ "$package" != r-base-core ] || echo "setup: To leave R out and skip its test, set CIRCE_CHECK_R=0."
            install "$package" || echo "setup: $package could not be installed. Its tests will be skipped." >&2
        fi
    done
}

sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    install_packages
    install_optional
else
    echo "setup: This is not Debian or Ubuntu. Please install these packages under your system's names:" $packages $optional >&2
fi

# sysroot FOLDER ARCHITECTURE SOURCES PACKAGES...: Debian's libraries of another system, unpacked into FOLDER/sysroot, where a
# toolchain file of cmake/ looks. apt-get has a state of its own here, so that this system stays as it is. SOURCES: "" for this
# system's. The file `ready` has the list that was unpacked.
sysroot() {
    root=$PWD/$1 architecture=$2 sources=$3
    shift 3
    [ "$(cat "$root/sysroot/ready" 2>/dev/null)" != "$*" ] || return 0
    mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial" "$root/sysroot"
    : >"$root/apt/status"
    options="-q -o APT::Architecture=$architecture -o APT::Architectures=$architecture -o Dir::State=$root/apt
             -o Dir::State::lists=$root/apt/lists -o Dir::State::status=$root/apt/status -o Dir::Cache=$root/apt/cache -o APT::Sandbox::User="
    if [ -n "$sources" ]; then
        echo "$sources" >"$root/apt/sources.list"
        options="$options -o Dir::Etc::SourceList=$root/apt/sources.list -o Dir::Etc::SourceParts=/dev/null"
    fi
    echo "setup: downloading Debian's $architecture packages of $* into ${root#"$PWD/"}/sysroot"
    apt-get $options update
    apt-get $options install -y --download-only --no-install-recommends "$@"
    for package in "$root"/apt/cache/archives/*.deb; do
        dpkg -x "$package" "$root/sysroot"
    done
    find "$root/sysroot" -type l -lname '/*' | while read -r link; do # they mean the root of their own system
        ln -sfn "$root/sysroot$(readlink "$link")" "$link"
    done
    rm -rf "$root/apt"
    echo "$*" >"$root/sysroot/ready"
}

libraries="libc6-dev libcjson-dev libyaml-dev libzip-dev zlib1g-dev libpng-dev libturbojpeg0-dev librandom123-dev"
if [ "$what" = aarch64 ]; then
    sysroot build-aarch64 arm64 "" $libraries libopenblas-openmp-dev libcmocka-dev
fi
if [ "$what" = matrix ]; then
    "$0" aarch64
fi

# The wheels are built on an old Debian's libraries, so that they work on systems as old (cmake/manylinux.cmake), and tried on its
# Python. They come from the mirror that this system uses, or from CIRCE_DEBIAN.
if [ "$what" = wheel ]; then
    mirror=${CIRCE_DEBIAN:-$(apt-get indextargets --format '$(REPO_URI)' | grep '/debian/*$' | sort -u | head -n 1)}
    if [ -z "$mirror" ]; then
        echo "setup: no mirror of Debian among this system's package sources; set CIRCE_DEBIAN to the address of one" >&2
        exit 1
    fi
    old="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bullseye main"
    sysroot build-wheel/x86_64 amd64 "$old" $libraries libgomp1 python3
    sysroot build-wheel/aarch64 arm64 "$old" $libraries libgomp1 python3
    for folder in build-wheel/*/sysroot/usr/lib/*-linux-gnu; do # the compiler's own is of this system
        ln -sfn libgomp.so.1 "$folder/libgomp.so"
    done
    what=python
fi

# The comparisons run in the environment of the Python package's tests, which has all that they need.
[ "$what" = bench ] && what=python

if [ "$what" = python ] && ! cmp -s python/requirements.txt .venv/python-ready; then
    python3 -m venv .venv
    .venv/bin/pip install -q --require-hashes -r python/requirements.txt
    cp python/requirements.txt .venv/python-ready
fi

# An installed CUDA toolkit with cuDNN serves; without one, NVIDIA's own packages of the compiler, the runtime, cuBLAS,
# cuSOLVER and cuDNN, from PyPI, under .cuda, where cmake/Cuda.cmake and the library look. A driver or a GPU is not needed to build.
if [ "$what" = cuda ] && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ] &&
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
