"""The kinds of files that hold a run's curve: how to recognize each, and what writes it. docs/curves.md lists them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gputop.jobs.output.follower import Backlog
from gputop.process import OUTPUT
from gputop.untracked.files.trainer_state import FILE_BYTES, TrainerState
from gputop.untracked.files.values import Parser, metric_name

READ_BYTES = 1 << 20
"""How much of a file one turn reads."""
METRICS_DIR = "metrics"
"""Holds the metrics of an MLflow run; ``meta.yaml`` is next to it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file."""

    label: str
    """Its name on screen and in JSON."""
    names: str
    """The names of its files, for the user."""
    written_by: str
    pattern: str
    """Matches the name of the file. Without groups that capture: ``kind_of`` looks for all kinds at once."""
    parser: Callable[[Path], Parser] | None
    """Makes what follows the bytes of a file; None for a database, which is asked for a run's values instead."""
    backlog: Backlog
    """The part of a large file that is read."""
    read_bytes: int = READ_BYTES
    rewritten: bool = False
    """Whether the file is rewritten with all earlier values in it."""


TENSORBOARD = Kind(
    "TensorBoard",
    "events.out.tfevents.*",
    "torch.utils.tensorboard, tensorboardX, Keras, Lightning, Transformers, Accelerate",
    r"events\.out\.tfevents\..+",
    lambda path: _events(),
    Backlog(1 << 20, 128 << 20),
)
WANDB = Kind(
    "W&B",
    "wandb/run-*/run-*.wandb, wandb/offline-run-*/run-*.wandb",
    "wandb, online and offline",
    r"run-.+\.wandb",
    lambda path: _of_wandb(),
    Backlog(1 << 20, 128 << 20),
)
MLFLOW = Kind(
    "MLflow",
    "mlruns/EXPERIMENT/RUN/metrics/NAME",
    "mlflow, into a folder",
    r"(?!)",
    lambda path: _of_mlflow(path),
    Backlog(0, 16 << 20),
)
MLFLOW_DATABASE = Kind(
    MLFLOW.label,
    "mlflow.db, mlruns.db",
    "mlflow, into SQLite, the default of newer versions",
    r"ml(?:flow|runs)\.db",
    None,
    Backlog(0, 0),
)
TABLE = Kind(
    "CSV",
    "*.csv, *.tsv, training.log with a heading that names a step or an epoch and a measured quantity",
    "Lightning's and Keras' CSVLogger, Ultralytics, Stable-Baselines3",
    r".+\.(?:csv|tsv)|training\.log",
    lambda path: _table(),
    Backlog(1 << 20, 32 << 20),
    rewritten=True,
)
JSON_LINES = Kind(
    "JSON lines",
    "*.jsonl, *.ndjson, *.log.json, log.txt, metrics.json, scalars.json",
    "detectron2, MMEngine, DINO, MAE, your own scripts",
    r".+\.(?:jsonl|ndjson|log\.json)|log\.txt|(?:metrics|scalars)\.json",
    lambda path: _lines(),
    Backlog(0, 16 << 20),
)
TRAINER_STATE = Kind(
    "Trainer state",
    "checkpoint-*/trainer_state.json",
    "Transformers' Trainer, with each checkpoint",
    r"trainer_state\.json",
    lambda path: TrainerState(),
    Backlog(FILE_BYTES, FILE_BYTES),
    read_bytes=FILE_BYTES,
    rewritten=True,
)
LOG = "its log file"
"""The label of a text log that a process of the run has open: the log may differ from the output."""
LOG_NAMES = re.compile(r".+\.(?:log|txt|out)")
IN_WINDOWS = {"tmux": "its output in tmux", "screen": "its output in screen"}
"""The labels of what it prints to a window, by the window's program."""
KINDS = (TENSORBOARD, WANDB, MLFLOW, MLFLOW_DATABASE, TABLE, JSON_LINES, TRAINER_STATE)
_NAME = re.compile("|".join(f"({kind.pattern})" for kind in KINDS))
"""A search looks at thousands of names, and nearly all are those of other files. The patterns have no groups of their own."""
ORDER = (
    *(kind.label for kind in (TENSORBOARD, WANDB, MLFLOW, TABLE, JSON_LINES)),
    OUTPUT,
    LOG,
    TRAINER_STATE.label,
    *IN_WINDOWS.values(),
)
"""If a run has several curves, the first in this order is its own."""


def kind_of(name: str) -> Kind | None:
    """Return the kind of a file, judging by its name; None if gputop does not read it."""
    found = _NAME.fullmatch(name)
    return None if found is None or found.lastindex is None else KINDS[found.lastindex - 1]


# A parser is imported for the first file of its kind: most runs have files of one kind, or of none.


def _events() -> Parser:
    from gputop.untracked.files.tensorboard import EventFile

    return EventFile()


def _of_wandb() -> Parser:
    from gputop.untracked.files.wandb import RunFile

    return RunFile()


def _of_mlflow(path: Path) -> Parser:
    from gputop.untracked.files.mlflow import MetricFile

    return MetricFile(metric_name(_name_of_metric(path)) or "?")


def _table() -> Parser:
    from gputop.untracked.files.table import Table

    return Table()


def _lines() -> Parser:
    from gputop.untracked.files.lines import Lines

    return Lines()


def _name_of_metric(path: Path) -> str:
    """Return the name of the metric in a file of MLflow: its path below the last folder ``metrics``."""
    parts = path.parts
    start = len(parts) - 1 - parts[::-1].index(METRICS_DIR) if METRICS_DIR in parts else len(parts) - 2
    return "/".join(parts[start + 1 :])
