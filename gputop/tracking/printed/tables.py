"""Metrics from printed tables, which name them in a heading: skorch, fastai, YOLO, CSV; from boxes with a value in each
line; and from the lists of boosting libraries.

A heading is a line of names at least two spaces, a tab, a bar or a comma apart, one of them measured. A row below it has as
many cells, and a number in each measured column; YOLO's rows continue with a progress bar.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gputop.tracking.printed.names import ALSO, ANY_MEASURED, NUMBER, PERCENT, Printed, is_evaluation, is_listed, lower
from gputop.tracking.printed.rates import DATA_TIME, STEP_TIME
from gputop.tracking.printed.sides import full, with_points

_BOOSTING = re.compile(r"\[(\d{1,15})\]\s+(\S.*)")
_ENTRY = re.compile(
    rf"(?:([\w.@-]{{1,99}})'s )?([A-Za-z][\w.@-]{{0,99}})\s?:\s?({NUMBER})(?:\s?\+\s?{NUMBER})?(?=\s|$)",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_][\w/@%.()\[\]-]{0,40}")
_WORDS = re.compile(r"[^\W\d_][\w/@%.()\[\]-]{0,40}(?: [\w/@%.()\[\]-]{1,20}){0,9}")
"""A name between bars or wide gaps may have several words."""
_SHORT_COUNTERS = {"E": "epoch", "#": "step", "ep": "epoch", "Ep": "epoch", "it": "step"}
"""What spaCy calls them, and people who have little room."""
_TRAINED, _ENDING = frozenset(("tr", "trn", "train")), re.compile(r"(.{2,30})_([A-Za-z]{1,5})")
_EVALUATION = re.compile(r"(?i)val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev")
"""In a row's cell: whose values the row has."""
_IS_OF_TRAINING = ("train", "training", "is_train")
"""A column with True in the rows of the training, and False in the others."""
_UNIT = re.compile(r"(?<=\w)\[[^\[\]]{1,12}\]$")
"""The unit behind a name: "rmse[m]"."""
_PERCENT = re.compile(r"(?<=[A-Za-z])[ _]?\(?%\)?$")
_UNIT_BEHIND = re.compile(r"(?<=\d) (?=(?:m?s|secs?|min|h|[KMG]i?B|%)(?:\s|$))")
"""Between a number and its unit in a row: "9.8 s"."""
_DATE = re.compile(r"^(\s{0,20}\d{4}-\d\d-\d\d) (?=\d\d:\d\d:\d\d)")
_BARS = str.maketrans("┃│║", "|||")
_EMPTY = ("", "-", "—", "N/A", "n/a", "None")
_ROWS_MAX = 10_000
"""How many rows of a table are remembered, to tell a repeated one."""
_GAP = re.compile(r"\s{2,}|\t|\||,\s?")
_BAR_AT_END = re.compile(r":\s+\d+%.*")
_BATCHES = re.compile(r"(?:\|\s*|[━╸╺─]\s{1,3})(\d{1,15})/(\d{1,15})\s*(?:\[|\s\d)")
_BOXED = re.compile(rf"\|\s+([A-Za-z][\w/@.-]{{0,60}})\s*\|\s*({NUMBER})\s*\|", re.IGNORECASE)
"""A line of a box with a name and a value, as Stable-Baselines3 and rl_games print them."""
_BORDER = re.compile(r"([-+]{5,300})|\|[-:|\s]{3,300}\|")
_BOX_LINES_MAX = 200
"""How many values of one box are read."""
_STEPS_OF_BOXES = ("total_timesteps", "iterations", "n_updates")
_COUNT = re.compile(r"(\d{1,15})(?:/(\d{1,15}))?")
_VALUE = re.compile(NUMBER, re.IGNORECASE)
_COUNTERS = ("epoch", "step", "iter", "iteration", "update", "steps", "updates", "timesteps", "env_steps", "frames")
_MAYBE_EMPTY = "cp"
"""skorch's column for "+" where a checkpoint was saved."""
_COLUMNS_LEAST = 3
_PACES = {
    **dict.fromkeys(
        ("time", "time_s", "dt", "dt_s", "step_time", "step_s", "iter_time", "sec/step", "s/step", "s/it", "s/update", "sec"),
        (STEP_TIME, 1.0),
    ),
    **dict.fromkeys(("time_ms", "dt_ms", "step_ms", "iter_ms", "ms/step", "ms/it", "ms/update", "ms"), (STEP_TIME, 1e-3)),
    **dict.fromkeys(("data", "data_s", "data_time", "load_s", "wait_s"), (DATA_TIME, 1.0)),
    **dict.fromkeys(("data_ms", "load_ms", "wait_ms"), (DATA_TIME, 1e-3)),
}
"""Columns about the pace of a step, as ``rates`` names them, and their unit in seconds."""
_PACE_UNIT = re.compile(r"[(\[](m?s)[)\]]?$")
"""The unit behind such a name: "dt(ms)"."""
_MEMORY = "gpu_mem"
_SHORT_LOSSES = frozenset(("box", "obj", "cls", "dfl", "seg", "giou", "total"))
"""What YOLOv5 and YOLOv7 call the parts of their loss, next to a column of the GPU's memory."""


def boosting(line: str) -> Printed | None:
    """Return what a line of XGBoost or LightGBM says: "[19]  train-logloss:0.05", "[100]  valid_0's l2: 0.3"."""
    found = _BOOSTING.fullmatch(line.strip())
    if found is None:
        return None
    rest, metrics, at = found[2], {}, 0
    while entry := _ENTRY.match(rest, at):
        metrics[f"{entry[1]}/{entry[2]}" if entry[1] else entry[2]] = float(entry[3])
        at = entry.end()
        at += len(rest) - at - len(rest[at:].lstrip())
    if at < len(rest) or not any(map(is_listed, metrics)):
        return None
    return Printed(metrics, int(found[1]))


class Tables:
    """Follows the tables in one output stream."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._words: list[str] = []
        """The words of a heading without bars and commas."""
        self._between_bars = False
        self._rows: set[str] = set()
        """The rows so far of a table between bars: some scripts print theirs whole after each epoch."""
        self._box: dict[str, float] = {}
        self._is_whole = False
        """Whether a border was above the box: else the output was found in the middle of it, and its counts may be above."""
        self.pace: dict[str, float] = {}
        """What the last row says about the pace of its step, in seconds."""

    def read(self, line: str) -> Printed | None:
        """Return what a row says, or a box that ends with this line; None for a heading and for any other line."""
        if not line.isascii():
            line = line.translate(_BARS)
        if ";" in line and "," not in line:
            line = line.replace(";", ",")
        boxed = _BOXED.fullmatch(line.strip())
        if boxed is not None:
            if len(self._box) < _BOX_LINES_MAX:
                self._box[boxed[1]] = float(boxed[2])
            return None
        if self._box and (ends := _BORDER.fullmatch(line.strip())) is not None:
            box, self._box = self._box, {}
            is_whole, self._is_whole = self._is_whole, True
            found = _of_box(box) if ends[1] else None  # the border of a Markdown table is below its heading
            return found if is_whole or found is None else replace(found, step=None)
        self._is_whole = self._is_whole or _BORDER.fullmatch(line.strip()) is not None
        columns = _heading(line)
        if columns:
            if columns != self._columns:
                self._rows.clear()
            self._columns, self._between_bars = columns, line.lstrip().startswith("|") or " | " in line
            self._words = [] if self._between_bars or "," in line else line.split()
            return None
        if not self._columns or self._is_known(line):
            return None
        return self._row(line)

    def _is_known(self, line: str) -> bool:
        """Return whether a table between bars already had this row."""
        row = line.strip()
        if not self._between_bars or row in self._rows:
            return self._between_bars
        if len(self._rows) < _ROWS_MAX:
            self._rows.add(row)
        return False

    def _cells(self, line: str, bar: re.Match[str] | None) -> list[str]:
        if self._between_bars:
            cells = [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
            # Some people group columns by bars.
            return cells if len(cells) >= len(self._columns) else line.replace("|", " ").split()
        return (line if bar is None else line[: bar.start()]).replace("|", " ").replace(",", " ").split()

    def _row(self, line: str) -> Printed | None:
        line = _DATE.sub(r"\1T", line).removeprefix("! ")  # NequIP's mark
        if self._between_bars and "," in line:
            line = with_points(line)
        bar = _BAR_AT_END.search(line)
        cells = self._cells(line, bar)
        columns = self._columns
        if len(cells) > len(columns):
            cells = self._cells(_UNIT_BEHIND.sub("", line), bar)
        if len(cells) == len(self._words) != len(columns):
            columns = self._words  # a blank alone is between some of the names
        if len(cells) == len(columns) - 1 and _MAYBE_EMPTY in columns:
            columns = [name for name in columns if name != _MAYBE_EMPTY]
        if len(cells) != len(columns):
            return None
        side = next((cell.lower() for cell in cells if _EVALUATION.fullmatch(cell)), None)
        named = zip(columns, cells, strict=True)
        if side is None and any(name.lower() in _IS_OF_TRAINING and cell == "False" for name, cell in named):
            side = "val"
        metrics: dict[str, float] = {}
        pace: dict[str, float] = {}
        counts: dict[str, tuple[int, int | None]] = {}
        for name, cell in zip(columns, cells, strict=True):
            if name.lower() in _COUNTERS:
                count = _COUNT.fullmatch(cell)
                if count is None:
                    return None
                counts[name.lower()] = int(count[1]), int(count[2]) if count[2] else None
            elif is_listed(name) or ALSO.search(name):
                if self._between_bars and cell in _EMPTY:
                    continue
                name = full(lower(name))
                if cell.endswith("%"):
                    name, cell = name if name.endswith(PERCENT) else f"{name}{PERCENT}", cell.removesuffix("%").rstrip()
                if _VALUE.fullmatch(cell) is None:
                    return None
                metrics[name if side is None or is_evaluation(name) else f"{side}_{name}"] = float(cell)
            elif (pace_of := _PACE_UNIT.sub(r"_\1", name.lower())) in _PACES and _VALUE.fullmatch(cell) is not None:
                kind, unit_s = _PACES[pace_of]
                pace[kind] = float(cell) * unit_s
        if not metrics:
            return None
        self.pace = pace if counts.keys() - {"epoch"} else {}  # the time of an epoch is another matter
        epoch, epochs = counts.pop("epoch", (None, None))
        step, steps = next(iter(counts.values()), (None, None))
        batches = _BATCHES.search(line, bar.start()) if bar is not None and step is None else None
        within = batches is not None and epoch is not None
        if batches is not None and within:
            step, steps = int(batches[1]), int(batches[2])
        return Printed(metrics, step, steps, epoch, epochs, batch=within)


def _of_box(box: dict[str, float]) -> Printed | None:
    """Return what a whole box says: its measured values, and the first of its counts that there is."""
    short = {name.rpartition("/")[2]: value for name, value in box.items()}
    step = next((int(short[name]) for name in _STEPS_OF_BOXES if short.get(name, 0.5).is_integer()), None)
    metrics = {name: value for name, value in box.items() if is_listed(name)}
    return Printed(metrics, step) if metrics else None


def _heading(line: str) -> list[str]:
    """Return the names of a heading's columns; [] for any other line."""
    with_memory = _MEMORY in line.lower()
    if not with_memory and not ANY_MEASURED.search(line):
        return []
    cells = [cell for cell in map(str.strip, _GAP.split(_BAR_AT_END.sub("", line).strip())) if cell]
    cells = [name for cell in cells for name in _single_names(cell)]
    cells[:2] = [_SHORT_COUNTERS.get(cell, cell) for cell in cells[:2]]
    form = _NAME if ", " in line else _WORDS  # translated names of a CSV file may have several words
    if len(cells) < 2 or not all(map(form.fullmatch, cells)):
        return []
    names = [_PERCENT.sub("_percent", _UNIT.sub("", cell)).strip("()[].").replace(" ", "_") for cell in cells]
    if with_memory and names[0].lower() == "epoch":
        names = [f"{name}_loss" if name.lower() in _SHORT_LOSSES else name for name in names]
    counted = any(name.lower() in _COUNTERS for name in names)
    # Between bars, people also print results: a row for each model or class.
    enough = counted or (len(names) > _COLUMNS_LEAST and not line.lstrip().startswith("|"))
    return _both_sides(names) if enough and any(map(is_listed, names)) else []


def _both_sides(names: list[str]) -> list[str]:
    """Return the names of columns in which the training's end in "tr", and the evaluation's in another short form."""
    ends = [_ENDING.fullmatch(name) for name in names]
    trained = {end[1].lower() for end in ends if end is not None and end[2].lower() in _TRAINED}
    others = {end[2].lower() for end in ends if end is not None and end[1].lower() in trained} - _TRAINED
    if not others:
        return names
    sides = {**dict.fromkeys(_TRAINED, "train"), **dict.fromkeys(others, "val")}
    return [
        f"{sides[end[2].lower()]}_{end[1].lower()}" if end is not None and end[2].lower() in sides else name
        for name, end in zip(names, ends, strict=True)
    ]


def _single_names(cell: str) -> list[str]:
    """Return the names in a cell: a narrow column has one blank before the next, as in "tr_loss tr_acc"."""
    words = cell.split(" ")
    return words if len(words) > 1 and all("_" in word and is_listed(word) for word in words) else [cell]
