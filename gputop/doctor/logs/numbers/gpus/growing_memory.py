"""Memory that grows for as long as a log reports it: of the GPU, or of the process or its host. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.line import Line

VALUES_MIN, SURE_VALUES = 8, 12
"""The fewest values to judge, and the fewest for a likely finding (our choice)."""
GROWN, SURE_GROWN = 1.3, 1.5
"""The last quarter of the values is at least this many times the first; the same for a likely finding (our choice)."""
EVENLY = 0.15
"""Each quarter adds this share of the growth: what is full, or was only once larger, grows no more (our choice)."""
SERIES_MAX, KEPT = 256, 10_000
"""At most this many names of ranks or hosts are followed, with this many values each."""
_WORDS = ("mem", "rss", "ram", "cuda", "alloc", "reserved", "used")
_MEMORY = re.compile(
    r"(?i)(?<![A-Za-z_/])(?P<name>(?:(?:max|peak) )?(?:[\w/]{0,40}?(?:mem(?:ory)?|rss|vram)[\w/]{0,20}|ram|cuda|"
    r"mem\w{0,12}alloc\w{0,10}|alloc(?:ated)?|reserved|resv|(?:host|ram|memory|system)\W{1,2}used)"
    r"(?: ?\([^()]{0,30}\))?"
    r"(?: en uso| [^\W\d_]{4,14})?)"
    r"[\"']?[ :=]{1,12}(?P<value>\d{1,7}(?:\.\d{1,6})?)(?: ?[/|] ?\d{1,7}\.\d{1,3})?"
    r" ?(?P<unit>[KMGT](?:i?B?|o)\b)?(?![\w.]|:\d)"
)
_NO_USE = re.compile(
    r"(?i)free|avail|libre|frei|livre|dispon|(?<!rss_)(?<!alloc_)total|limit|pin|retr|count|num|freq|fraction|slots|replay|buffer|cache|(?<![a-z])(?:device|index|bank)"
)
_WORD = 10
"""A word this close before a name may say that it is not memory in use: "free mem 10.2G"."""
_WITHOUT_UNIT = re.compile(r"(?i)memory/\w{0,20}alloc\w{0,10}_mem|memory/\w{0,20}reserved_mem|gpumem|cpumem|max mem$")
"""Composer's, StyleGAN's and torchvision's names, which no unit follows."""
_OF_YOLO = re.compile(r"^\s{1,9}\d{1,5}/\d{1,5}\s{1,12}(\d{1,3}(?:\.\d{1,3})?)G\s")
"""The second column of Ultralytics' table, after the epoch."""
_OF_MMENGINE = re.compile(r"data_time: \d[\d.]{0,9}\s{1,4}memory: (\d{2,6})\b")
"""The most that was allocated so far, in MiB."""
_OF_DEEPSPEED = re.compile(r"\bMA (\d{1,4}\.\d{1,2}) (GB) {1,9}Max_MA \d")
"""What is allocated, as DeepSpeed's see_memory_usage prints it."""
_SIZE = re.compile(r"(?i)\b(?:size|resolution|res|seq_?len(?:gth)?|length|batch_?size|bs|image)[ =:]{1,3}(\d{1,6})\b")
SIZES_MAX = 3
"""With more different sizes of images, sequences or batches than this, the memory may grow with them (our choice)."""
_OF_GPU = re.compile(r"(?i)gpu|cuda|vram|alloc|reserved|device")
_PEAK = re.compile(r"(?i)peak|max")
PEAK_VALUES, PEAK_GROWN = 24, 3.0
"""The same as ``SURE_VALUES`` and ``SURE_GROWN`` for a peak, which also grows with the largest batch so far (our choice)."""
_OF_HOST = re.compile(r"(?i)rss|ram(?!e)|host|cpu|system|process")
_FACTORS = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}
"""To MiB."""


class GrowingMemory:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first value."""
        self._values: dict[tuple[str, str], list[float]] = {}
        self._units: dict[tuple[str, str], str] = {}
        self._sizes: set[str] = set()

    def read(self, line: Line) -> None:
        """Take the next line."""
        column = _OF_YOLO.match(line.text)
        if column is not None:
            self._keep(("", "gpu_mem"), "G", float(column[1]) * _FACTORS["g"])
            return
        if "Max_MA" in line.text and (allocated := _OF_DEEPSPEED.search(line.text)) is not None:
            self._keep(("", "allocated"), "GB", float(allocated[1]) * _FACTORS["g"])
            return
        if not any(word in line.lower for word in _WORDS):
            return
        peak = _OF_MMENGINE.search(line.text) if "data_time" in line.lower else None
        if peak is not None:
            self._keep(("", "peak of the memory"), "MiB", float(peak[1]))
            return
        speaker = line.speaker
        if _WITHOUT_UNIT.search(line.text) is None and not is_progress(line.rest):
            return  # what is loaded, wrapped or tried grows on purpose
        if len(self._sizes) <= SIZES_MAX and (size := _SIZE.search(line.text)) is not None:
            self._sizes.add(size[1])
        for match in _MEMORY.finditer(line.text):
            name, unit = match["name"].strip(), match["unit"] or ""
            before = max(0, match.start() - _WORD)
            if _NO_USE.search(line.text, before, match.end("name")) or not (unit or _WITHOUT_UNIT.search(name)):
                continue
            key = "" if speaker is None else f"{speaker.host or ''}{speaker.rank}", name.lower()
            self._keep(key, unit, float(match["value"]) * (_FACTORS[unit[0].lower()] if unit else 1.0))

    def _keep(self, key: tuple[str, str], unit: str, value: float) -> None:
        if key not in self._values and len(self._values) >= SERIES_MAX:
            return
        values = self._values.setdefault(key, [])
        self._units.setdefault(key, unit)
        if len(values) < KEPT:
            values.append(value)

    def findings(self) -> tuple[Finding, ...]:
        """Return the memory that has grown the most."""
        grown = [(times, key) for key, values in self._values.items() if (times := _grown(values)) is not None]
        if not grown:
            return ()
        times, key = max(grown)
        return (_finding(key[1], self._values[key], self._units[key], times, len(self._sizes) > SIZES_MAX),)


def _grown(values: Sequence[float]) -> float | None:
    """Return how many times the first quarter the last one is; None unless the values grow all the time."""
    if len(values) < VALUES_MIN:
        return None
    cuts = [len(values) * part // 4 for part in range(5)]
    quarters = [units.mean(values[begin:end]) for begin, end in itertools.pairwise(cuts)]
    growth = quarters[-1] - quarters[0]
    if quarters[0] <= 0 or quarters[-1] < GROWN * quarters[0]:
        return None
    steady = all(after - before >= EVENLY * growth for before, after in itertools.pairwise(quarters))
    return quarters[-1] / quarters[0] if steady else None


def _finding(name: str, values: Sequence[float], unit: str, times: float, varies: bool) -> Finding:
    first, last = (_text(value, unit) for value in (values[0], values[-1]))
    of_host = _OF_HOST.search(name) is not None and _OF_GPU.search(name) is None
    where = "memory of the host" if of_host else "memory of the GPU" if _OF_GPU.search(name) else "memory"
    values_min, grown = (PEAK_VALUES, PEAK_GROWN) if _PEAK.search(name) else (SURE_VALUES, SURE_GROWN)
    return Finding(
        id="H06",
        severity="warning",
        confidence="likely" if not varies and times >= grown and len(values) >= values_min else "possible",
        title=f"The {where} grows all the time: {name} from {first} to {last}",
        evidence=(
            Fact(
                f"{name} has grown in each quarter of {units.count(len(values))} values, {times:.1f} times in all", times, "log"
            ),
        ),
        cause="Something keeps what each step leaves behind: a list of losses or outputs with their graphs, a cache, a "
        "replay of samples, or data that each worker process copies as it reads it.",
        fix="history.append(loss.item())  # not loss: it keeps the graph and its tensors\n"
        "outputs.append(y.detach().cpu())\n"
        "# of workers: arrays instead of lists of Python objects, which each worker copies when it counts references",
        refuted_by="It stays where it is once a cache or a replay memory is full, or sequences become longer on purpose.",
    )


def _text(value: float, unit: str) -> str:
    if not unit:
        return units.metric(value)
    return f"{units.metric(value / _FACTORS[unit[0].lower()])} {unit}"
