#!/bin/sh
# Warnings as errors (the dev preset), clang-tidy, cppcheck and the formatting, over the whole tree. What needs the headers
# of CUDA or MPI is only formatted.
set -eu
cmake --preset dev >/dev/null
cmake --build --preset dev
sources=$(git ls-files 'lib/*.c' 'io/*.c' 'train/*.c' 'images/*.c' 'report/*.c' 'mpi/*.c' 'cli/*.c' | grep -v -e backend/cpu/loops.c -e mpi/engine_ -e '/cuda/')
clang-tidy --quiet -p build-dev $sources
cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
    --suppress=missingIncludeSystem -I include -I lib -I io -I train -I images -I report -I mpi -I cli $(ls -d cli/*/ | sed "s/^/-I /") $sources
git ls-files '*.c' '*.h' '*.inc' '*.cpp' | xargs clang-format --dry-run -Werror
echo "lint: clean"
