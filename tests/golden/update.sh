#!/usr/bin/env bash
# Writes the golden files anew: tests/golden/update.sh, then look at `git diff`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
./bazelw test //tests/golden:plan_test --test_env=TEST_UPDATE="$PWD/tests/golden" \
  --strategy=TestRunner=local --nocache_test_results
