#!/bin/sh
# Warnings as errors (the dev preset), clang-tidy, cppcheck and the formatting, over the whole tree, on every core. What needs
# the headers of CUDA is only formatted, and so is what needs MPI where MPI is not installed. Memory of either precision is
# told apart by the views' dtype, so cppcheck's word about casts of pointers is not asked for.
set -eu
jobs=$(nproc)

cmake --preset dev >/dev/null
cmake --build --preset dev -j "$jobs"

without="backend/cpu/loops.c|/cuda/"
grep -q mpi/engine_ build-dev/compile_commands.json || without="$without|mpi/engine_"
sources=$(git ls-files 'lib/*.c' 'base/*.c' 'io/*.c' 'train/*.c' 'images/*.c' 'report/*.c' 'mpi/*.c' 'jobs/*.c' 'sweep/*.c' 'paper/*.c' 'cli/*.c' | grep -v -E "$without")
echo "lint: clang-tidy over $(echo "$sources" | wc -l) files"
echo "$sources" | xargs -P "$jobs" -n 4 clang-tidy --quiet -p build-dev
echo "lint: cppcheck"
cppcheck --quiet -j "$jobs" --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
    --suppress=missingIncludeSystem --suppress=invalidPointerCast -I . -I include -I lib $sources
echo "lint: clang-format"
git ls-files '*.c' '*.h' '*.inc' '*.cpp' | xargs clang-format --dry-run -Werror
echo "lint: clean"
