#!/usr/bin/env bash
# Installs what the tests need besides Go: Debian packages that are missing and
# the npm modules of the browser tests. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

# tool to look for → Debian package that has it
declare -A package=(
  [chromium]=chromium # browser tests
  [wrk]=wrk           # benchmarks
  [node]=nodejs       # browser tests
  [npm]=npm
  [gcc]=build-essential # the race detector links with C
)

missing=()
for tool in "${!package[@]}"; do
  command -v "$tool" >/dev/null || missing+=("${package[$tool]}")
done

if ((${#missing[@]})); then
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null && as_root=(sudo)
  fi
  if ! command -v apt-get >/dev/null || { ((EUID != 0)) && ((${#as_root[@]} == 0)); }; then
    echo "setup: please install ${missing[*]} (names of Debian's packages)," >&2
    echo "setup: or run 'make race', which needs Go and a C compiler only." >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# npm leaves this file behind; it is older than the lock file after a change.
lock=test/browser/package-lock.json
mark=test/browser/node_modules/.package-lock.json
if [[ -f $lock && ( ! -f $mark || $lock -nt $mark ) ]]; then
  (cd test/browser && npm ci --no-audit --no-fund --loglevel=error)
  touch "$mark"
fi
