"""What a run's files say about it besides its values: its name and configuration, from W&B and MLflow. Never raises on their
contents; everything is bounded, and text is safe to show.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from gputop.places import open_regular
from gputop.untracked.files import mlflow_database
from gputop.untracked.files.values import metric_name
from gputop.untracked.files.wandb import RunFile
from gputop.untracked.kinds import MLFLOW, MLFLOW_DATABASE, WANDB
from gputop.untracked.search import Found
from gputop.wire import FormatError, parse_json

HEAD_BYTES = 1 << 20
"""W&B writes a run's name and configuration at the beginning of its file."""
ENTRIES = 300
"""Maximum number of configuration entries."""
TEXT_CHARACTERS = 300
"""A longer value is cut."""
_DEPTH = 4
"""Values nested deeper are left out."""


@dataclass(slots=True)
class About:
    """What is known about a run; ``name`` is None if it has none."""

    name: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


def about(found: Found) -> About:
    """Return the name and configuration that the files give their run; both are empty for kinds other than W&B and MLflow."""
    if found.kind is WANDB:
        return _of_wandb(next(iter(found.paths)))
    if found.kind is MLFLOW_DATABASE:
        name, settings = mlflow_database.described(found.root.parent, found.root.name)
        return About(metric_name(name or ""), _bounded((key, _number_or_text(text)) for key, text in settings))
    return _of_mlflow(found.root) if found.kind is MLFLOW else About()


def _of_wandb(path: Path) -> About:
    reader = RunFile()
    try:
        with path.open("rb") as file:
            reader.feed(file.read(HEAD_BYTES))
    except OSError:
        return About()
    flat = (item for key, text in reader.config.items() if not key.startswith("_") for item in _flat(key, _parsed(text)))
    return About(metric_name(reader.name or ""), _bounded(flat))


def _of_mlflow(root: Path) -> About:
    name = _text(root / "tags" / "mlflow.runName")
    params = root / "params"
    try:
        with os.scandir(params) as listing:
            names = sorted(entry.name for entry in islice(listing, ENTRIES) if entry.is_file(follow_symlinks=False))
    except OSError:
        names = []
    return About(metric_name(name or ""), _bounded((key, _number_or_text(_text(params / key))) for key in names))


def _bounded(items: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    named = ((metric_name(key), value) for key, value in items)
    return dict(islice(((key, value) for key, value in named if key is not None and value is not None), ENTRIES))


def _flat(key: str, value: Any, depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield a value, or those inside it, by keys joined with dots."""
    if isinstance(value, Mapping):
        for inner, content in value.items() if depth else ():
            yield from _flat(f"{key}.{inner}", content, depth - 1)
    elif isinstance(value, str):
        yield key, _shown(value)
    elif isinstance(value, list):
        yield key, _shown(json.dumps(value))
    else:
        yield key, value


def _shown(text: str) -> str:
    return (metric_name(text[:TEXT_CHARACTERS]) or "") + ("…" if len(text) > TEXT_CHARACTERS else "")


def _number_or_text(text: str | None) -> Any:
    """Return an MLflow parameter, which is stored as text: as a number if Python prints that number the same way."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if str(value) == text and math.isfinite(value):
            return value
    return _shown(text)


def _parsed(text: bytes) -> Any:
    try:
        return parse_json(text)
    except (FormatError, UnicodeDecodeError):
        return None


def _text(path: Path) -> str | None:
    """Return the beginning of a small file; None if it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(4 * TEXT_CHARACTERS).decode("utf-8", "replace").strip()
    except OSError:
        return None
