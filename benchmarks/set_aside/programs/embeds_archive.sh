#!/usr/bin/env bash
# offline embeddings of the archive, half of the pages on each card; no training here
set -e
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT INT TERM
for k in 0 1; do
  GPUTOP_VIRTUAL_DEVICES=$k "${PYTHON:-python}" -u embeds_archive.py --part $k/2 --out "$dir" --pages "${PAGES:-400000}" &
done
wait
