#!/usr/bin/env bash
# same limits as in the container on the cluster
set -e
cd "$(dirname "$0")"
ulimit -n 256
exec "${PYTHON:-python}" -u lipreading.py --epochs 60 --workers 2
