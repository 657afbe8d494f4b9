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
  [redis-server]=redis-server # throw-away servers of the tests, as those below
  [redis-sentinel]=redis-sentinel
  [redis-cli]=redis-tools
  [mariadbd]=mariadb-server
)
PATH=$PATH:/usr/sbin:/sbin # where servers are, also for those who are not root

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
  # Tests start their own servers on free ports. Debian's scripts ask this file
  # whether to start one of the system; one that runs already stays as it is.
  guard=/usr/sbin/policy-rc.d
  if [[ ! -e $guard ]]; then
    trap '"${as_root[@]}" rm -f "$guard"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$guard" >/dev/null
    "${as_root[@]}" chmod 755 "$guard"
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  # Nor are the new ones to start with the machine.
  if command -v systemctl >/dev/null; then
    for package in "${missing[@]}"; do
      case $package in
        redis-server | redis-sentinel) unit=$package ;;
        mariadb-server) unit=mariadb ;;
        *) continue ;;
      esac
      "${as_root[@]}" systemctl --quiet disable "$unit" || echo "setup: could not disable $unit" >&2
    done
  fi
fi

# npm leaves this file behind; it is older than the lock file after a change.
lock=test/browser/package-lock.json
mark=test/browser/node_modules/.package-lock.json
if [[ -f $lock && ( ! -f $mark || $lock -nt $mark ) ]]; then
  (cd test/browser && npm ci --no-audit --no-fund --loglevel=error)
  touch "$mark"
fi
