#!/bin/sh
# Fuzzes every reader of files: run.sh SECONDS [BUILD]. Each target starts from its corpus and runs that many seconds;
# what it finds on the way stays in BUILD. Inputs that crash are left in BUILD/crashes, and the exit status is then 1.
set -u
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:?usage: run.sh SECONDS [BUILD]}
build=${2:-$here/../../build-fuzz}
failed=0

for name in npy npz csv safetensors dsprites pgm; do
    found=$build/found/$name
    mkdir -p "$found" "$build/crashes" || exit 1
    log=$build/fuzz_$name.log
    if "$build/fuzz_$name" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$build/crashes/$name-" "$found" "$here/corpus/$name" >"$log" 2>&1; then
        echo "fuzz_$name: $(grep -c NEW "$log") new inputs, $(sed -n 's/^Done //p' "$log")"
    else
        echo "fuzz_$name: FAILED, see $log and $build/crashes" >&2
        tail -n 30 "$log" >&2
        failed=1
    fi
done
exit $failed
