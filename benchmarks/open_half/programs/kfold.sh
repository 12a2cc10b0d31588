#!/bin/sh
# all folds one after the other, then again with the next seed
cd "$(dirname "$0")" || exit 1
while :; do
  for f in 0 1 2 3 4; do
    "${PYTHON:-python}" kfold.py -c kfold.yaml --fold $f || exit 1
  done
done
