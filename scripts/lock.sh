#!/bin/sh
# Pins what the .in files ask for, each file with its hash, for every Python from 3.11 on: run it after changing one of
# them, or for newer versions. Needs uv (pip install uv).
set -eu
cd "$(dirname "$0")/.."
for requirements in bench/requirements python/requirements scripts/requirements-cuda; do
    uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-header --upgrade \
        "$requirements.in" -o "$requirements.txt"
done
