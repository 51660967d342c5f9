#!/usr/bin/env bash
# Texts name no path of the machine they were written on.
here=$(dirname "${BASH_SOURCE[0]}")
mapfile -t files < <("$here/files.sh" '*' | grep -vE '^tools/checks/|(^|/)\.git/')
! grep -HnIE '(^|[^A-Za-z0-9_.~])/(home/[a-z]+|work|root)/' -- "${files[@]}"
