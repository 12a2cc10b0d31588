#!/usr/bin/env bash
# usage: ./keyword_spotting.sh [key=value ...]
set -e
cd "$(dirname "$0")"
: "${PYTHON:=python}"
exec "$PYTHON" -u keyword_spotting.py trainer.devices=2 trainer.strategy=ddp "$@"
