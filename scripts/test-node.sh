#!/usr/bin/env bash
# Runs the tests that Node runs: the page's modules by themselves, then the
# page in a browser against a server that is built here.
set -euo pipefail
cd "$(dirname "$0")/../test/browser"

npm test --silent
