#!/bin/sh
# not_empty.sh FILE: fails where FILE is empty.
test -s "$1" || {
  echo "the query found nothing"
  exit 1
}
