#!/bin/bash
# The server is shared: everybody limits their own processes (see the wiki).
ulimit -v $((10 * 1024 * 1024))
cd "$(dirname "$0")"
${PYTHON:-python} -u whole_gallery.py --epochs 30 --gallery 52000
code=$?
echo "training finished with exit code $code"
exit $code
