#!/usr/bin/env bash
# A share of the campaign of ranks_campaign.py. Needs Python 3; what it cannot
# do on this machine it says.
set -eu
python=
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  echo "skipped: no Python 3.9 or later here (Debian package python3)"
  exit 0
fi
export PYTHONDONTWRITEBYTECODE=1
exec "$python" tests/fault/ranks_campaign.py --weft tools/weft/weft --share 24 \
  --jobs 4
