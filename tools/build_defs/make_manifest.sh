#!/bin/sh
# Writes the manifest of a plugin: make_manifest.sh NAME FILE.so ROLE...
set -eu
name=$1
file=$2
shift 2
sha=$(sha256sum "$file")
printf 'name: "%s"\n' "$name"
printf 'file: "%s"\n' "$(basename "$file")"
printf 'sha256: "%s"\n' "${sha%% *}"
printf 'soname: "%s"\n' "$(basename "$file")"
for role in "$@"; do printf 'roles: "%s"\n' "$role"; done
