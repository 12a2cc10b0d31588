#!/usr/bin/env bash
# 3 learning rates x 2 widths, one job per card at a time; results end up in one table.
# usage: ./grid_of_lrs.sh [steps]
set -euo pipefail
STEPS=${1:-900}
PY=${PYTHON:-python}
OUT=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2>/dev/null; rm -rf "$OUT"' EXIT INT TERM

lane() { # card, then the configurations of this lane
  local card=$1; shift
  for cfg in "$@"; do
    IFS=: read -r lr width <<<"$cfg"
    echo "[card $card] start lr=$lr width=$width"
    GPUTOP_VIRTUAL_DEVICES=$card "$PY" -u grid_of_lrs.py --lr "$lr" --width "$width" --steps "$STEPS" --tag "c$card" | tee "$OUT/$lr-$width.log"
    echo "[card $card] done  lr=$lr width=$width: $(tail -n 1 "$OUT/$lr-$width.log")"
  done
}

lane 0 4e-4:256 2e-4:256 1e-4:256 &
lane 1 4e-4:320 2e-4:320 1e-4:320 &
wait
echo "== all runs =="
for f in "$OUT"/*.log; do echo "$(basename "$f" .log) $(tail -n 1 "$f")"; done
