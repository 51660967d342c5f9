#!/usr/bin/env bash
# What //:install leaves works without the build: the command, the plugins
# beside it, and no other.
set -euo pipefail
prefix=$TEST_TMPDIR/prefix
plugins=$prefix/lib/weft/plugins

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
installed() { (cd / && env -i PATH=/usr/bin:/bin "$@" 2>&1); }

mkdir -p "$plugins"
echo mine > "$plugins/mine.txt"
tools/install.sh "$prefix" > "$TEST_TMPDIR/said"
tools/install.sh "$prefix" > "$TEST_TMPDIR/said" # again, over itself
grep -q "installed $prefix/bin/weft" "$TEST_TMPDIR/said" || fail "says nothing"
[ "$(cat "$plugins/mine.txt")" = mine ] || fail "another's file is gone"

list=$(installed "$prefix/bin/weft" plugin list --explain)
for plugin in 'cpu *device' 'sim *device' 'loopback *transport' 'shm *transport' 'grpc *transport'; do
  grep -q "^$plugin .* $plugins/libweft_${plugin%% *}.so" <<< "$list" ||
    fail "no $plugin in: $list"
done
[ "$(grep -c ' ok$' <<< "$list")" = 5 ] || fail "not five good plugins: $list"
mkdir -p "$TEST_TMPDIR/runs"
doctor=$(installed "WEFT_RUNS_DIR=$TEST_TMPDIR/runs" "$prefix/bin/weft" doctor) || fail "$doctor"
grep -q "^ok *device cpu *$plugins/" <<< "$doctor" || fail "$doctor"
for transport in loopback shm grpc; do
  grep -q "^ok *transport $transport *$plugins/" <<< "$doctor" || fail "$doctor"
done

(cd "$TEST_TMPDIR" && ! BUILD_WORKING_DIRECTORY= "$OLDPWD/tools/install.sh" 2> usage) ||
  fail "takes no prefix"
grep -q '^usage: ' "$TEST_TMPDIR/usage" || fail "no usage"
