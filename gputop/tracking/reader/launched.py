"""Which recipe a run was launched by, from its job's record (``jobs/record.py``), which is only read here."""

from __future__ import annotations

import os

from gputop.places import jobs_dir, open_regular
from gputop.wire import parse_json

RECORD_BYTES = 1 << 20
"""A larger record is not gputop's."""
_known: dict[str, str | None] = {}
"""Job id -> the id of its recipe, if any. Read once, because a record never changes."""


def recipe_of(job_id: str) -> str | None:
    """Return the id of a job's recipe; None for the user's own command, or if the record cannot be read."""
    if job_id in _known:
        return _known[job_id]
    if not job_id or os.sep in job_id or job_id.startswith("."):
        return None
    try:
        with open_regular(jobs_dir() / job_id / "spec.json") as file:
            spec = parse_json(file.read(RECORD_BYTES))
    except (OSError, ValueError):
        return None
    recipe = spec.get("recipe_id") if isinstance(spec, dict) else None
    _known[job_id] = recipe if isinstance(recipe, str) else None
    return _known[job_id]
