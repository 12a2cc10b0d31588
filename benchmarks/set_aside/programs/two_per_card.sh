#!/bin/bash
# Width sweep. The models are tiny: two fit on a card side by side, and together they are faster than one after the other.
cd "$(dirname "$0")"
jobs_per_card=2
trap 'kill $(jobs -p) 2>/dev/null; exit 143' INT TERM
for widths in "48 64" "80 96"; do
    echo "widths $widths: $jobs_per_card jobs on this card"
    for width in $widths; do
        "${PYTHON:-python}" -u two_per_card.py width="$width" seed=1 &
    done
    wait
done
