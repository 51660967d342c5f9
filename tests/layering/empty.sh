#!/bin/sh
# empty.sh FILE REASON: fails, with the reason, where FILE is not empty.
if [ -s "$1" ]; then
  echo "forbidden: $2"
  cat "$1"
  exit 1
fi
