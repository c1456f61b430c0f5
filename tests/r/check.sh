#!/bin/sh
# The R package, as its users get it: R CMD check without a warning, against an installed circe. Then, as that installed it, its
# values against those of the command and of Python, interrupts and memory. check.sh SOURCE BUILD
set -eu
source=$1
build=$2
folder=$build/r
skip() {
    echo "skipped: $1"
    exit 77
}
command -v R >/dev/null || skip "R is not installed (scripts/setup.sh check)"

rm -rf "$folder"
mkdir -p "$folder"
cmake --install "$build" --prefix "$folder/prefix" >/dev/null
export CIRCE_PREFIX="$folder/prefix" CIRCE_GOLDEN="$source/tests/golden" R_LIBS="$folder/circe.Rcheck" OMP_NUM_THREADS=2
export _R_CHECK_CRAN_INCOMING_=false _R_CHECK_SYSTEM_CLOCK_=0 # these ask the network
# Debian's R is built with flags that its own check calls not portable.
export _R_CHECK_COMPILATION_FLAGS_KNOWN_="-Wformat -Werror=format-security -Wdate-time"
export _R_CHECK_FORCE_SUGGESTS_=false LC_ALL=C.UTF-8

cd "$folder"
vignettes=""
checks="--no-manual --no-vignettes" # their code is run by R CMD build
command -v checkbashisms >/dev/null && command -v qpdf >/dev/null && checks="$checks --as-cran" # which warns where they are missing
if ! Rscript -e 'quit(status = !all(c("knitr", "markdown") %in% rownames(installed.packages())))'; then
    echo "knitr and markdown are not installed: the vignette is left out."
    vignettes=--no-build-vignettes
    checks="$checks --ignore-vignettes"
fi
R CMD build $vignettes "$source/r"
R CMD check $checks circe_*.tar.gz || { cat circe.Rcheck/00install.out circe.Rcheck/tests/*.fail 2>/dev/null; exit 1; }
if grep -q "WARNING\|ERROR" circe.Rcheck/00check.log; then exit 1; fi
export CIRCE_LIBRARY="$build/libcirce.so" PYTHONPATH="$source/python"
Rscript "$source/tests/r/agree.R" "$folder/prefix/bin/circe"
Rscript "$source/tests/r/last.R"
