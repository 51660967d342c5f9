#!/usr/bin/env bash
# Two hosts with two ranks each, played by namespaces of network and processes:
# the ranks of a host are joined by shared memory, those of two hosts by gRPC,
# with TLS; the bits are those of one process, whoever knocks at the doors. Then
# the network is cut.
# Skipped, with the reason, where a test may make no namespaces.
set -u
skip() {
  echo "skipped: $1"
  exit 0
}
if [ "${1:-}" != inside ]; then
  for tool in ip unshare nsenter; do
    command -v "$tool" >/dev/null || skip "no $tool here"
  done
  unshare -Urn --pid --fork --mount-proc true 2>/dev/null ||
    skip "no namespaces for this user"
  exec unshare -Urn --pid --fork --kill-child --mount-proc "$0" inside
fi

weft=$PWD/tools/weft/weft
here=$TEST_TMPDIR
job=$here/job.txtpb
fail() {
  echo "FAILED: $1"
  for r in 0 1 2 3; do
    echo "rank $r:"
    cat "$here/err$r"
  done
  exit 1
}

# The other host is where this process is.
unshare -n --pid --fork --kill-child --mount-proc sleep 1000 &
until other=$(pgrep -x sleep); do :; done
ip link add here type veth peer name there netns "$other" || skip "no veth"
on_other() { nsenter -t "$other" -n -p -m "$@"; }
ip addr add 10.77.0.1/24 dev here
nsenter -t "$other" -n ip addr add 10.77.0.2/24 dev there
ip link set here up
ip link set lo up
nsenter -t "$other" -n ip link set there up
nsenter -t "$other" -n ip link set lo up

(umask 077 && head -c 32 /dev/urandom | base64 >"$here/secret")
cp "$0" "$here/text"
cat >"$job" <<JOB
name: "hosts"
model { builtin { name: "gpt" args { key: "layers" value: "1" }
  args { key: "heads" value: "2" } args { key: "width" value: "16" } } }
data { train { text { path: "text" context: 16 byte {} } } }
optimizer { adamw {} schedule { constant { base: 0.01 } } }
batch_size: 8
logical_shards: 4
JOB

# Ranks 0 and 1 here, 2 and 3 there; steps and flags are given.
start() {
  local steps=$1 r on
  shift
  for r in 0 1 2 3; do
    on=
    : >"$here/err$r" # what was said before is not taken for this job's
    [ "$r" -lt 2 ] || on=on_other
    RANK=$r WORLD_SIZE=4 LOCAL_RANK=$((r % 2)) LOCAL_WORLD_SIZE=2 \
      MASTER_ADDR=10.77.0.1 MASTER_PORT=29600 WEFT_SECRET_FILE=$here/secret \
      $on "$weft" train "$job" --set steps="$steps" --set epochs=0 \
      --run-dir "$here/runs" "$@" >"$here/out$r" 2>"$here/err$r" &
    pid[r]=$!
  done
}

start 6
for r in 0 1 2 3; do
  wait "${pid[r]}" || fail "rank $r ended with $?"
done
log=$(echo "$here"/runs/*/logs/rank_00001.log)
grep -q 'joined with rank 0 by shm, ranks 2, 3 by grpc' "$log" ||
  fail "rank 1 is joined otherwise: $(grep 'joined with' "$log")"
# The newest run has made the bits of one process that makes as many steps.
same_bits() {
  local run step
  run=$(ls -d "$here"/runs/* | sort | tail -1)
  step=$(basename "$(ls -d "$run"/ckpt/step_* | sort | tail -1)")
  "$weft" train "$job" --set steps=$((10#${step#step_})) --set epochs=0 \
    --run-dir "$here/alone" --virtual-ranks 2 >/dev/null 2>&1 ||
    fail "one process ended with $?"
  cmp "$run/ckpt/$step/model.safetensors" \
    "$here"/alone/*/ckpt/"$step"/model.safetensors || fail "other bits"
  rm -r "$here/alone"
}
same_bits

await_steps() {
  until grep -q 'first step after' "$here/err0"; do
    kill -0 "${pid[0]}" 2>/dev/null || fail "rank 0 ended early"
  done
}

# Strangers at the doors of ranks 0 and 1, while they train.
if /usr/bin/python3 -c 'import ssl' 2>/dev/null; then
  "$PWD/tests/e2e/issue_certificate" "$here" 1 || fail "no certificate"
  start 100000000
  await_steps
  doors=$(awk '$4 == "0A" && $2 ~ /01004D0A:/ { print $2 }' /proc/net/tcp \
    /proc/net/tcp6)
  knocked=0
  for door in $doors; do
    port=$((16#${door#*:}))
    [ "$port" -ne 29600 ] || continue # of the meeting, and without TLS
    /usr/bin/python3 "$PWD/tests/e2e/tls_stranger.py" 10.77.0.1 "$port" \
      "$here/cert.pem" "$here/key.pem" || fail "a stranger at port $port"
    knocked=$((knocked + 1))
  done
  [ "$knocked" -gt 0 ] || fail "no doors: $doors"
  # A stranger is no news: the ranks' output has their own lines only.
  for r in 0 1 2 3; do
    ! grep -v '^weft: ' "$here/err$r" || fail "rank $r talks of strangers"
  done
  kill -TERM "${pid[0]}"
  for r in 0 1 2 3; do
    wait "${pid[r]}"
    code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 143 ] || fail "rank $r ended with $code"
  done
  same_bits
else
  echo "no strangers: no Python with ssl here"
fi

# Without a network between them both halves end.
start 100000000 --peer-timeout 1
await_steps
ip link set here down
for r in 0 1 2 3; do
  wait "${pid[r]}"
  code=$?
  [ "$code" -eq 138 ] || fail "rank $r ended with $code after the cut"
  grep -q 'WEFT-7001' "$here/err$r" || fail "rank $r does not say who is lost"
done
echo ok
