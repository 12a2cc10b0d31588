#!/usr/bin/env bash
cd "$(dirname "$0")"
exec timeout -k 5 220 "${PYTHON:-python}" -u protein_contacts.py
