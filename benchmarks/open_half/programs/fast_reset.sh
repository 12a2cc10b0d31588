#!/bin/bash
cd "$(dirname "$0")"
LOGNAME_=$(date +%m%d)
echo "run $LOGNAME_ on $(hostname)"
${PYTHON:-python} -u fast_reset.py --episodes 100000
echo "exit code $?"
