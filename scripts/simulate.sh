#!/usr/bin/env bash
# Runs worlds of internal/simulate: one process for each processor, each with
# seeds of its own, until Ctrl-C; or tells the story of one seed.
# FROM is the first seed, FOR a time to run.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}

if [ -n "${1:-}" ]; then
  exec "$go" test ./internal/simulate -count 1 -run 'TestSeed$' -v -args -seed "$1"
fi

tmp=$(mktemp -d)
pids=()
# Ctrl-C reaches the processes too, which then say how far they got.
trap : INT
trap '[ ${#pids[@]} -eq 0 ] || kill -INT "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$tmp"' EXIT
"$go" test -c -o "$tmp/simulate.test" ./internal/simulate
cores=$(nproc)
from=${FROM:-1}
echo "running worlds from seed $from in $cores processes; Ctrl-C ends it"
for ((i = 0; i < cores; i++)); do
  GOMAXPROCS=1 "$tmp/simulate.test" -test.run 'TestExplore$' -test.timeout 0 -test.v -for "${FOR:--1ns}" \
    -from $((from + i)) -stride "$cores" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do
  until wait "$pid"; do
    if ! kill -0 "$pid" 2>/dev/null; then
      failed=1
      break
    fi
  done
done
pids=()
exit $failed
