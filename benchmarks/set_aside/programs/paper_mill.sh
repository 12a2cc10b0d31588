#!/bin/bash
# The batch system gives slots of one minute; each slot goes on where the last one stopped.
PYTHON=${PYTHON:-python}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
trap 'exit 143' TERM INT
for slot in 1 2 3 4 5 6; do
    echo "== slot $slot on $(hostname) =="
    $PYTHON -u paper_mill.py --work "$WORK" --limit 50 || exit 1
done
