#!/bin/sh
# Runs the tests of a preset and says at the end what passed, failed and was skipped: check.sh PRESET [options of ctest].
# The exit status is that of the tests.
set -u
preset=$1
shift
report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
ctest --preset "$preset" --output-junit "$report" --test-output-size-passed 1000000 --test-output-size-failed 1000000 "$@" ||
    status=$?
echo
python3 "$(dirname "$0")/summary.py" "$report" || [ "$status" -ne 0 ] || status=1
exit "$status"
