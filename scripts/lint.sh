#!/bin/sh
# Warnings as errors (the dev preset), clang-tidy, cppcheck and the formatting, over the whole tree, on every core. Files that
# need the headers of CUDA are only checked for formatting, and so are those that need MPI if it is not installed. A view's
# dtype says which precision its memory has, so cppcheck's warning about casts of pointers is turned off.
set -eu
jobs=$(nproc)

command -v ccache >/dev/null && export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
cmake --preset dev >/dev/null
# Every file is compiled. Linking more than a hundred programs would tell nothing about them.
cmake --build --preset dev -j "$jobs" --target $(cmake --build --preset dev -- -t targets all | sed -n 's/\(.*\.o\): .*/\1/p')

without="backend/cpu/loops.c|/cuda/"
grep -q mpi/engine_ build-dev/compile_commands.json || without="$without|mpi/engine_"
sources=$(git ls-files 'lib/*.c' 'base/*.c' 'io/*.c' 'train/*.c' 'images/*.c' 'report/*.c' 'mpi/*.c' 'jobs/*.c' 'sweep/*.c' 'paper/*.c' 'cli/*.c' | grep -v -E "$without")
found=0
echo "lint: clang-tidy over $(echo "$sources" | wc -l) files"
words=build-dev/clang-tidy.txt
echo "$sources" | xargs -P "$jobs" -n 4 clang-tidy --quiet -p build-dev >"$words" 2>&1 || found=1
grep -v -E '^[0-9]+ warnings?.* generated\.$' "$words" || true # of system headers, mostly
echo "lint: cppcheck"
cppcheck --quiet -j "$jobs" --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress=invalidPointerCast -I . -I include -I lib $sources || found=1
echo "lint: clang-format"
git ls-files '*.c' '*.h' '*.inc' '*.cpp' | xargs clang-format --dry-run -Werror || found=1
if [ $found -ne 0 ]; then
    echo "lint: see the findings above"
    exit 1
fi
echo "lint: clean"
