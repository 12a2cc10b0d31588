#!/usr/bin/env bash
# Ablation: 2 cards, one job on each, the next one starts when a card is free.
cd "$(dirname "$0")"
PY=${PYTHON:-python}
declare -A on
for variant in base no-skip wide narrow gelu no-norm deep dropout; do
  while :; do
    for card in 0 1; do
      if [[ -z "${on[$card]:-}" ]] || ! kill -0 "${on[$card]}" 2>/dev/null; then
        echo "$(date +%T) start $variant on card $card"
        CUDA_VISIBLE_DEVICES=$card $PY -u ablation_of_the_week.py --variant "$variant" --seconds $((12 + RANDOM % 14)) &
        on[$card]=$!
        continue 3
      fi
    done
    wait -n
  done
done
wait
echo "all variants done"
