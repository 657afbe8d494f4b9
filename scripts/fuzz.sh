#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME. A failing input is kept by Go under
# testdata/fuzz of its package: commit it, it is a test from then on.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${FUZZTIME:=10m}"
found=0
while IFS=: read -r file _ line; do
  name=${line#func }
  name=${name%%(*}
  echo "== $name in $(dirname "$file") for $FUZZTIME"
  go test -run '^$' -fuzz "^${name}\$" -fuzztime "$FUZZTIME" "./$(dirname "$file")"
  found=$((found + 1))
done < <(grep -rn --include='*_test.go' '^func Fuzz' internal cmd ./*.go | sort)
echo "$found fuzz targets ran clean"
((found > 0))
