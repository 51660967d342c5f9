#!/usr/bin/env bash
# The accuracy campaign: the MLP with five seeds (5 epochs), the CNN with three (3
# epochs). Prints RESULT lines. `nice`, for it takes minutes.
#
#   ./bazelw build -c opt //:weft && benchmarks/accuracy.sh
#   WEFT=/path/to/weft LENET_SEEDS=7 benchmarks/accuracy.sh
set -eu
cd "$(dirname "$0")/.."
weft=${WEFT:-bazel-bin/tools/weft/weft}
nice benchmarks/train.py accuracy --weft "$weft" --job mlp \
  --seeds "${MLP_SEEDS:-1,2,3,4,5}"
nice benchmarks/train.py accuracy --weft "$weft" --job lenet \
  --seeds "${LENET_SEEDS:-1,2,3}"
