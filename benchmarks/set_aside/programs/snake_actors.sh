#!/bin/sh
# four minutes per student and card
cd "$(dirname "$0")"
exec timeout 225 "${PYTHON:-python}" -u snake_actors.py --actors 2
