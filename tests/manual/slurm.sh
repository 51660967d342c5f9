#!/usr/bin/env bash
# Runs a command as a step of Slurm on this machine alone: a key, munged,
# slurmctld and slurmd of its own, in a folder of its own, which all go again.
#   tests/manual/slurm.sh TASKS COMMAND...
#   tests/manual/slurm.sh 2 weft env
# Needs root and the Debian packages slurmctld slurmd slurm-client munge
# (apt-get install --no-install-recommends). What it printed when it was run last
# is in docs/launch.md.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
tasks=$1
shift
for tool in munged slurmctld slurmd srun; do
  command -v "$tool" >/dev/null || { echo "slurm.sh: no $tool here" >&2; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "slurm.sh: daemons of Slurm need root" >&2; exit 77; }

dir=$(mktemp -d -p /tmp --suffix=-weft-slurm)
daemons=()
finish() {
  for pid in "${daemons[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${daemons[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap finish EXIT
chmod 711 "$dir"
mkdir -m 700 "$dir/munge" "$dir/state" "$dir/spool"
mkdir -m 755 "$dir/socket"
head -c 1024 /dev/urandom >"$dir/munge/key"
chmod 400 "$dir/munge/key"

# A port that nobody has.
port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}
host=$(hostname -s)
memory=$(awk '/MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
cat >"$dir/slurm.conf" <<CONF
ClusterName=weft
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/socket/munge
CredType=cred/munge
SlurmctldPort=$(port)
SlurmdPort=$(port)
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
CONF
export SLURM_CONF=$dir/slurm.conf

munged --foreground --force --key-file="$dir/munge/key" --socket="$dir/socket/munge" \
  --pid-file="$dir/munge/pid" --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >"$dir/munged.log" 2>&1 &
daemons+=($!)
slurmctld -D >"$dir/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D >"$dir/slurmd.log" 2>&1 &
daemons+=($!)
for _ in $(seq 60); do
  sinfo -h -o %t 2>/dev/null | grep -qE '^(idle|mix|alloc)' && break
  sleep 0.5
done
sinfo -h -o %t 2>/dev/null | grep -qE '^(idle|mix|alloc)' || {
  echo "slurm.sh: the node does not come up" >&2
  tail -5 "$dir"/slurm*.log >&2
  exit 1
}
echo "slurm.sh: $(srun --version), $tasks tasks: $*" >&2
srun --ntasks="$tasks" --overcommit "$@"
