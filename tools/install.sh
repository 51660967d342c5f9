#!/usr/bin/env bash
# Installs the weft command and its plugins: PREFIX/bin/weft, and in
# PREFIX/lib/weft/plugins, where the command looks, each plugin with its
# manifest. What else lies there stays.
#   ./bazelw run //:install -- ~/.local
set -euo pipefail

if [ $# -ne 1 ] || [[ $1 == -* || -z $1 ]]; then
  echo "usage: ./bazelw run //:install -- PREFIX    (such as ~/.local or /usr/local)" >&2
  exit 2
fi
prefix=$1
# `bazel run` has left the user's directory.
[[ $prefix == /* ]] || prefix=${BUILD_WORKING_DIRECTORY:-$PWD}/$prefix
plugins=$prefix/lib/weft/plugins

# Plugins are refused where others could replace them.
umask 022
mkdir -p "$prefix/bin" "$plugins"

# place MODE FILE TARGET: what was there stays until the new file is whole.
whole=
trap 'rm -f "$whole"' EXIT
place() {
  whole=$3.new.$$
  install -m "$1" "$2" "$whole"
  mv -T "$whole" "$3"
}
place 0755 tools/weft/weft "$prefix/bin/weft"
for plugin in devices/cpu devices/sim transport/loopback transport/shm transport/grpc; do
  name=${plugin#*/}
  so=libweft_$name.so manifest=$name.weftplugin.txtpb
  place 0755 "$plugin/$so" "$plugins/$so"
  place 0644 "$plugin/$manifest" "$plugins/$manifest"
done
echo "installed $prefix/bin/weft, which finds these plugins:"
"$prefix/bin/weft" plugin list
