#!/usr/bin/env bash
# Benchmarks. full: measures everything and rewrites docs/benchmarks.md (about
# a quarter of an hour on two quiet cores). smoke: runs each for a moment, to
# see that it still works; its numbers mean nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  full)
    go run ./bench/system --report docs/benchmarks.md
    ;;
  smoke)
    go test -run '^$' -bench . -benchtime 1x -timeout 10m ./internal/...
    go run ./bench/system --smoke
    ;;
  *)
    echo "usage: scripts/bench.sh full|smoke" >&2
    exit 2
    ;;
esac
