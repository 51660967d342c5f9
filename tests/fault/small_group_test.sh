#!/usr/bin/env bash
# One of three ranks is in a control group that has less memory than the plan
# takes: every rank says so before the first step, that one with its own exit
# code, the others with that of a lost peer. Groups are played by namespaces.
# Skipped, with the reason, where a test may make none.
set -u
skip() {
  echo "skipped: $1"
  exit 0
}
if [ "${1:-}" != inside ]; then
  command -v unshare >/dev/null || skip "no unshare here"
  unshare -Urm mount -t tmpfs none /sys 2>/dev/null ||
    skip "no namespaces for this user"
  exec unshare -Urm --kill-child --fork "$0" inside
fi

weft=$PWD/tools/weft/weft
here=$TEST_TMPDIR
fail() {
  echo "FAILED: $1"
  for r in 0 1 2; do
    echo "rank $r:"
    cat "$here/err$r"
  done
  exit 1
}

cp "$0" "$here/text"
cat >"$here/job.txtpb" <<JOB
name: "group"
model { builtin { name: "gpt" args { key: "layers" value: "4" }
  args { key: "heads" value: "2" } args { key: "width" value: "384" } } }
data { train { text { path: "text" context: 16 byte {} } } }
optimizer { adamw {} schedule { constant { base: 0.01 } } }
batch_size: 6
JOB

# A group with 192 MiB around what is run: the program fits, the plan does not.
echo 0::/small >"$here/group"
in_small_group() {
  unshare -m sh -c 'mount -t tmpfs none /sys && mkdir -p /sys/fs/cgroup/small &&
    echo 201326592 >/sys/fs/cgroup/small/memory.max &&
    mount --bind "$0" /proc/$$/cgroup && exec "$@"' "$here/group" "$@"
}

name=group-$$-$(date +%s%N) # a sandbox may have its own numbers of processes
for r in 0 1 2; do
  in_group=
  [ "$r" -ne 1 ] || in_group=in_small_group
  OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=3 PMIX_NAMESPACE=$name \
    OMPI_COMM_WORLD_LOCAL_RANK=$r OMPI_COMM_WORLD_LOCAL_SIZE=3 \
    $in_group "$weft" train "$here/job.txtpb" --run-dir "$here/runs" \
    >"$here/out$r" 2>"$here/err$r" &
  pid[r]=$!
done
for r in 0 1 2; do
  wait "${pid[r]}"
  code=$?
  wanted=138
  [ "$r" -ne 1 ] || wanted=4
  [ "$code" -eq $wanted ] || fail "rank $r ended with $code, not with $wanted"
  grep "WEFT-3001.*the plan and buffers take.*the control group's limit leaves" \
    "$here/err$r" | grep -q "rank 1" || fail "rank $r does not say why"
  ! grep -q 'first step after' "$here/err$r" || fail "rank $r made a step"
done
[ -z "$(ls -A "$here/runs" 2>/dev/null)" ] || fail "a run is left"
echo ok
