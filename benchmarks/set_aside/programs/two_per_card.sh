#!/bin/bash
# Width sweep. The models are tiny: two fit on a card side by side, and together they are faster than one after the other.
cd "$(dirname "$0")"
jobs_per_card=2
widths=(48 64 80 96)
n=0
for width in "${widths[@]}"; do
    card=$((n / jobs_per_card))
    echo "width $width -> card $card ($jobs_per_card jobs per card)"
    GPUTOP_VIRTUAL_DEVICES=$card "${PYTHON:-python}" -u two_per_card.py width="$width" seed=1 &
    n=$((n + 1))
done
trap 'kill $(jobs -p) 2>/dev/null' INT TERM
wait
