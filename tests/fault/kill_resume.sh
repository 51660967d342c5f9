#!/usr/bin/env bash
# Kills training with SIGKILL at random moments and resumes it:
#   tests/fault/kill_resume.sh [points [seed]]     default 20 points
# The same code as //tests/fault:kill_test, which does five in every test run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec ./bazelw test //tests/fault:kill_test --test_env=TEST_KILLS="${1:-20}" \
  --test_env=TEST_SEED="${2:-$RANDOM}" --test_timeout=3600 --nocache_test_results \
  --test_output=all
