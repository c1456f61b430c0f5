#!/bin/sh
# Pins the packages of the .in files, with the hashes of their files, for every Python from 3.11 on. Run it after you change
# one of them, or to get newer versions. Needs uv (pip install uv).
set -eu
cd "$(dirname "$0")/.."
for requirements in python/requirements scripts/requirements-cuda; do
    uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-header --upgrade \
        "$requirements.in" -o "$requirements.txt"
done
