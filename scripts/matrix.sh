#!/bin/sh
# The tests on other processors, BLAS libraries, compilers and numbers of threads: matrix.sh [--short] [NAME...]
#
# Each row is a build and an environment; the table at the end says what passed where, and what was skipped because a tool is missing.
# --short: the rows that need no further build, on the tests whose numbers depend on them. NAME: only these rows.
# scripts/setup.sh matrix installs everything. The exit status is 1 if a test failed.
set -u
cd "$(dirname "$0")/.."
jobs=$(nproc)
numbers='^(core|algebra|kernels|cme|golden|gradient|gcm|measuring|inference|trainer)$'
arm='^(core|kernels|cme|golden|gradient|io|inference)$'
short=0
if [ "${1:-}" = --short ]; then
    short=1
    shift
fi
only=" $* "
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
: >"$work/table"

wanted() { [ "$only" = "  " ] || case "$only" in *" $1 "*) true ;; *) false ;; esac }
wanted_any() { for row in "$@"; do if wanted "$row"; then return 0; fi; done; return 1; }
note() { printf '%-18s %-8s %s\n' "$1" "$2" "$3" >>"$work/table"; }
processor_has() { [ ! -e /proc/cpuinfo ] || grep -q -w "$1" /proc/cpuinfo; }

# build NAME FOLDER OPTIONS...: configures and builds; says in the table where it cannot.
build() {
    name=$1 folder=$2
    shift 2
    echo "== $name: building in $folder"
    if ! cmake --preset release -B "$folder" "$@" >"$work/log" 2>&1; then
        missing=$(tr '\n' ' ' <"$work/log" | sed -n 's/.*message): *\(.* was not found\)\..*/\1/p' | tr -s ' ')
        if [ -n "$missing" ]; then
            note "$name" skipped "$missing (scripts/setup.sh matrix)"
        else
            tail -n 20 "$work/log"
            note "$name" FAILED "it cannot be configured"
            failed=1
        fi
        return 1
    fi
    if grep -q '^CIRCE_BLAS:UNINITIALIZED' "$folder/CMakeCache.txt"; then
        note "$name" skipped "these sources offer no choice of BLAS"
        return 1
    fi
    if ! cmake --build "$folder" -j "$jobs" >"$work/log" 2>&1; then
        tail -n 20 "$work/log"
        note "$name" FAILED "it does not build"
        failed=1
        return 1
    fi
}

# try NAME FOLDER CTEST-OPTIONS ENVIRONMENT...
try() {
    name=$1 folder=$2 options=$3
    shift 3
    echo "== $name${*:+: }$*"
    before=$(date +%s)
    result=passed
    env "$@" ctest --test-dir "$folder" -j "$jobs" --output-on-failure --output-junit "$work/report" \
        --test-output-size-passed 1000000 $options >"$work/log" 2>&1 || result=FAILED
    [ "$result" = passed ] || failed=1
    [ "$result" = passed ] || cat "$work/log"
    python3 scripts/summary.py "$work/report" >"$work/summary"
    sed '/^Longest:/d; $d' "$work/summary" # what was skipped, and why
    counts=$(tail -n 1 "$work/summary")
    broken=$(sed -n 's/.*<testcase name="\([^"]*\)".*status="fail".*/\1/p' "$work/report" | tr '\n' ' ')
    note "$name" "$result" "$counts in $(($(date +%s) - before)) s${broken:+: }$broken"
    rm -f "$work/report"
}

# row NAME FOLDER CTEST-OPTIONS ENVIRONMENT...: in a build that is there.
row() { if wanted "$1"; then try "$@"; fi; }

# The processor must have what is forced on it.
row_on() {
    needed=$1
    shift
    wanted "$1" || return 0
    if processor_has "$needed"; then try "$@"; else note "$1" skipped "this processor has no $needed"; fi
}

if [ $short = 1 ]; then all="-R $numbers"; else all="-LE python|gpu|mpi|fuzz"; fi
if wanted_any 1-thread 16-threads prescott baseline oldest 2-threads haswell zen skylakex avx2 avx512 && build "gcc" build; then
    row 1-thread build "$all" OMP_NUM_THREADS=1
    row 16-threads build "$all" OMP_NUM_THREADS=16
    row prescott build "$all" OPENBLAS_CORETYPE=PRESCOTT
    row baseline build "$all" CIRCE_ISA=baseline
    row oldest build "-R $numbers" OPENBLAS_CORETYPE=PRESCOTT CIRCE_ISA=baseline OMP_NUM_THREADS=16
fi
if [ $short = 0 ]; then
    row 2-threads build "$all" OMP_NUM_THREADS=2
    row_on avx2 haswell build "$all" OPENBLAS_CORETYPE=HASWELL
    row_on avx2 zen build "$all" OPENBLAS_CORETYPE=ZEN
    row_on avx512f skylakex build "$all" OPENBLAS_CORETYPE=SKYLAKEX
    row_on avx2 avx2 build "$all" CIRCE_ISA=avx2
    row_on avx512f avx512 build "$all" CIRCE_ISA=avx512

    if wanted_any clang clang-16-threads clang-prescott; then
        if ! command -v clang >/dev/null; then
            note clang skipped "clang is not installed (scripts/setup.sh matrix)"
        elif build clang build-matrix/clang -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++; then
            row clang build-matrix/clang "$all"
            row clang-16-threads build-matrix/clang "-R $numbers" OMP_NUM_THREADS=16
            row clang-prescott build-matrix/clang "-R $numbers" OPENBLAS_CORETYPE=PRESCOTT
        fi
    fi

    for blas in openblas-pthread blis reference; do
        wanted $blas || continue
        if build $blas build-matrix/$blas -DCIRCE_BLAS=$blas; then try $blas build-matrix/$blas "$all"; fi
    done

    if wanted aarch64; then
        if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null || [ ! -e build-aarch64/sysroot/ready ]; then
            note aarch64 skipped "the compiler, qemu or the libraries are not installed (scripts/setup.sh aarch64)"
        elif ! { cmake --preset aarch64 && cmake --build --preset aarch64 -j "$jobs"; } >"$work/log" 2>&1; then
            tail -n 20 "$work/log"
            note aarch64 FAILED "it does not build"
            failed=1
        else
            try aarch64 build-aarch64 "-R $arm"
        fi
    fi
fi

echo
cat "$work/table"
if [ ! -s "$work/table" ]; then
    echo "matrix: there is no row of the name$only" >&2
    exit 2
fi
exit $failed
