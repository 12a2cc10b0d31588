#!/bin/bash
# as on the login node
ulimit -n 256
cd "$(dirname "$0")"
exec ${PYTHON:-python} -u all_predictions_at_once.py --workers 2 "$@"
