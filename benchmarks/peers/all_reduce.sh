#!/usr/bin/env bash
# All-reduce between processes of this machine by others, for
# benchmarks/all_reduce to be compared with. Needs Debian's libopenmpi-dev and
# openmpi-bin, libucx0 for the second, python3-torch for the third; what is not
# there is named and left out.
#
#   [PYTHON=python3] benchmarks/peers/all_reduce.sh [ranks]
set -eu
ranks=${1:-2}
cd "$(dirname "$0")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_base_warn_component_unused=0
bind=none
[ "$ranks" -gt "$(nproc)" ] || bind=core
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if command -v mpicxx >/dev/null; then
  mpicxx -O2 -std=c++17 -I../.. mpi_all_reduce.cc -o "$work/mpi"
  run=(mpirun --oversubscribe --bind-to "$bind" -n "$ranks")
  "${run[@]}" --mca pml ob1 --mca btl self,vader "$work/mpi" "openmpi vader"
  "${run[@]}" --mca pml ob1 --mca btl self,vader \
    --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 6 \
    "$work/mpi" "openmpi rabenseifner"
  "${run[@]}" --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any \
    -x UCX_TLS=self,sm "$work/mpi" "openmpi ucx" ||
    echo "openmpi with ucx: left out" >&2
else
  echo "openmpi: left out, there is no mpicxx" >&2
fi
if "${PYTHON:-/usr/bin/python3}" -c 'import torch.distributed' 2>/dev/null; then
  "${PYTHON:-/usr/bin/python3}" ./torch_all_reduce.py "$ranks"
else
  echo "gloo: left out, there is no torch" >&2
fi
