"""The report of Lightning's SimpleProfiler: how much of a run its loader takes. Pure.

Its rows are those of lightning 1.6 to 2.6, profilers/simple.py (_make_report_extended).
"""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import CHECKPOINTS, WAITS_FOR_DATA, Text

POSSIBLE, LIKELY = 0.3, 0.5
"""The share of the run's training (our choice)."""
CHECKPOINT_SHARE = 0.2
CALLS_MIN = 20
"""Of fewer batches, the first one says too much (our choice)."""
_ROW = re.compile(
    r"^\|\s{1,9}(\S.{0,180}?)\s{1,200}\|\s{1,9}(\d{1,9}(?:\.\d{1,9})?(?:e-?\d\d)?)\s{1,20}\|\s{1,9}(\d{1,12})\s{1,20}"
    r"\|\s{1,9}(\d{1,9}(?:\.\d{1,9})?)\s{1,20}\|"
)
_LOADS = re.compile(r"^\[\w{1,60}\]\.train_(?:dataloader_)?next$|^(?:get_train_batch|fetch_next_train_batch)$")
_SAVES = re.compile(r"ModelCheckpoint.{0,160}\.on_\w{1,40}$|^save_checkpoint$")
_WHOLE = "run_training_epoch"


class LightningProfiles:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the report."""
        self._seconds: dict[str, float] = {}
        """The total seconds of the loader, of checkpoints, and of all epochs."""
        self._row = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.text.startswith("FIT Profiler Report"):
            self._seconds.clear()
        row = _ROW.match(line.text) if line.text.startswith("|") else None
        if row is None:
            return
        name, seconds = row[1], float(row[4])
        if _LOADS.match(name) and int(row[3]) < CALLS_MIN:
            return
        if _LOADS.match(name):
            self._seconds["data"] = seconds
            self._row = f"{name}: {row[2]} s on average, {row[3]} times"
        elif _SAVES.search(name):
            self._seconds["saving"] = self._seconds.get("saving", 0.0) + seconds
        elif name == _WHOLE:
            self._seconds["whole"] = seconds

    def findings(self) -> tuple[Finding, ...]:
        """Return what takes much of the training."""
        whole = self._seconds.get("whole", 0.0)
        if whole <= 0:
            return ()
        data, saving = (self._seconds.get(name, 0.0) / whole for name in ("data", "saving"))
        if data >= POSSIBLE:
            return (_finding("D01", WAITS_FOR_DATA, data, self._row),)
        return (_finding("E07", CHECKPOINTS, saving, "ModelCheckpoint"),) if saving >= CHECKPOINT_SHARE else ()


def _finding(id_: str, text: Text, share: float, row: str) -> Finding:
    return Finding(
        id=id_,
        severity="warning",
        confidence="likely" if share >= LIKELY else "possible",
        title=f"{text.title}: {share:.0%} of its epochs, by Lightning's profiler",
        evidence=(Fact(row, units.mean([share]), "log"),),
        cause=text.cause,
        fix=text.fix,
        refuted_by="Some of its epochs are those of a run that was too short to count.",
    )
