#!/usr/bin/env bash
# A training step of PyTorch, for benchmarks/train.py step to be compared with.
# Needs Debian's python3-torch, libopenblas0-openmp and dataset-fashion-mnist.
#
#   benchmarks/peers/train.sh [threads]
#
# OpenBLAS and ATen of Debian 12 do not know every recent processor and fall back
# to kernels without its vectors: here they are told.
set -eu
threads=${1:-1}
export OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-SkylakeX}
export ATEN_CPU_CAPABILITY=${ATEN_CPU_CAPABILITY:-avx512}
export LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp
export OMP_NUM_THREADS=$threads OMP_PROC_BIND=true OMP_PLACES=cores
cd "$(dirname "$0")"
./torch_train.py --model mlp --steps 300 --threads "$threads"
./torch_train.py --model lenet --steps 100 --threads "$threads" --channels_last
./torch_gpt.py --threads "$threads"
./torch_gpt.py --threads "$threads" --dropout 0.1
