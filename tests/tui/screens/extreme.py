"""Views that no healthy machine produces: values at the limits of numbers, and names that try to control the terminal."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace
from typing import Any

from gputop.doctor.findings.finding import Abstained, Episode, Fact, Finding
from gputop.history.history import History
from gputop.settings.values import Settings
from gputop.snapshot import Device, Points, Problem, Process, Rank, Run, Snapshot
from gputop.tui.state.view import View
from tests import samples
from tests.samples import EPOCH

NUMBERS = (
    *(0.0, -0.0, 1.0, -1.0, 0.43, 1e308, -1e308, 1.7976931348623157e308, 5e-324, 1e-308, -1e-308),
    *(math.nan, math.inf, -math.inf, 2.0**63, -(2.0**63), 999.95, 1e15, 123456789.0),
)
WHOLE = (0, 1, 7, -1, -(2**63), 2**31, 2**53 + 1, 2**63 - 1, 2**63, 10**18)
STEPS = (0, 1, 2, 3, 4, 5, 100, -1, -(2**63), 2**53 + 1, 2**63 - 1, 2**63)
TIMES = (EPOCH, EPOCH - 600, EPOCH + 1e9, 0.0, -1.0, -1e12, 1e18, 1e308, -1e308, math.nan, math.inf, -math.inf)
MARKUP = (
    *("[red]", "[/]", "[/red]", "[bold]loss[/]", "[@click=app.quit]x[/]", "[link=http://x]", "a[b", "]", "\\[red]", "[["),
    "[1]",
)
TEXTS = (
    "",
    " ",
    "loss",
    "train/loss",
    *MARKUP,
    "\x1b[2J\x1b[31mred",
    "a\nb\r\nc\td",
    "\x00\x07\x08\x7f\x9b31m",
    "\u202eabc\u2066d",
    "\ufeffzero\u200bwidth",
    "損失" * 30,
    "e" + "\u0301" * 300,
    "\u0301\u0301",
    "👩‍👩‍👧‍👦🏳️‍🌈" * 3,
    "\U0001f1e9\U0001f1ea",
    "\ud800",
    "ﷺ" * 5,
    "कि" * 9,
    "x" * 10_000,
    "損" * 10_000,
    "%s %d {0} {name} $HOME",
)


class Odd:
    """Draws odd values; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def number(self) -> float:
        return self.chance.choice(NUMBERS)

    def text(self) -> str:
        return self.chance.choice(TEXTS)

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def changed(self, item: Any, share: float = 0.4, keep: tuple[str, ...] = ()) -> Any:
        """A record with some odd texts and numbers, and some unknown ones if they may be unknown."""
        changes: dict[str, Any] = {}
        for known in fields(item):
            value = getattr(item, known.name)
            if known.name in keep or not self.maybe(share):
                continue
            if isinstance(value, bool):
                continue
            if isinstance(value, str):
                changes[known.name] = self.text()
            elif known.name.endswith("_at") or known.name in ("time",):
                changes[known.name] = self.chance.choice(TIMES)
            elif isinstance(value, int):
                changes[known.name] = self.chance.choice(WHOLE)
            elif isinstance(value, float):
                changes[known.name] = self.number()
        return replace(item, **changes)

    def device(self, index: int) -> Device:
        found: Device = self.changed(samples.device(index), keep=("uuid", "kind", "state", "index"))
        states = ("ok", "ok", "ok", "lost", "stale", "error")
        problem = Problem("other", self.text(), self.text()) if self.maybe(0.2) else None
        return replace(found, state=self.chance.choice(states), age_s=self.number(), problem=problem)

    def rank(self, number: int, metrics: list[str]) -> Rank:
        base = samples.run(1).ranks[0]
        facts = {
            "progress": {"total_steps": self.chance.choice((*WHOLE, None, self.text())), "epochs": self.chance.choice(WHOLE)},
            self.text(): self.text(),
            "error": {"type": self.text(), "message": self.text(), "where": self.text()},
            "alert": {"title": self.text(), "text": self.text(), "level": self.text(), "time": self.chance.choice(TIMES)},
            "tags": [self.text()],
            "model": {"class": self.text(), "parameters": self.chance.choice(WHOLE)},
            "stalled": {"since": self.chance.choice(TIMES), "step": self.chance.choice(STEPS), "stack": [self.text()]},
        }
        found: Rank = self.changed(
            replace(base, rank=number, pid=4000 + number, local_rank=number), keep=("rank", "state", "pid")
        )
        return replace(
            found,
            state=self.chance.choice(("starting", "running", "stalled", "finished", "failed", "killed")),
            metrics={name: self.number() for name in metrics},
            facts=facts,
        )

    def run(self, number: int, metrics: list[str], ranks: int) -> Run:
        base: Run = self.changed(samples.run(1, run_id=f"run-{number}"), keep=("run_id", "state"))
        base = replace(base, job_id=f"job-{number + 1}")
        config = {self.text(): self.chance.choice((self.text(), self.number(), [self.text()], None, {"a": self.text()}))}
        return replace(
            base,
            state=self.chance.choice(("running", "failed", "finished", "killed", "stopped")),
            ranks=tuple(self.rank(n, metrics) for n in range(ranks)),
            config=config,
            command=(self.text(), self.text()),
        )

    def points(self, run: Run, metrics: list[str]) -> tuple[Points, ...]:
        found = []
        for rank in run.ranks[:3]:
            for name in metrics:
                size = self.chance.choice((1, 3, 30))
                steps = tuple(range(size)) if self.maybe(0.5) else tuple(self.chance.choice(STEPS) for _ in range(size))
                times = tuple(EPOCH + n if self.maybe(0.5) else self.chance.choice(TIMES) for n in range(size))
                values = tuple(self.number() for _ in range(size))
                found.append(Points(run.run_id, rank.rank, name, steps, times, values))
        return tuple(found)

    def process(self, number: int) -> Process:
        base = samples.rank_process(number, (), 4)
        found: Process = self.changed(base, keep=("pid", "rank", "run_id"))
        uses = tuple(self.changed(use, keep=("device_uuid",)) for use in samples.rank_process(number, ()).devices)
        return replace(found, devices=uses, command=(self.text(), self.text()) if self.maybe(0.7) else None)

    def finding(self, snapshot: Snapshot) -> Finding:
        text = self.text
        return Finding(
            self.chance.choice(("A07", "G01", "C11")),
            self.chance.choice(("error", "warning", "info")),
            self.chance.choice(("certain", "likely", "possible")),
            text(),
            tuple(Fact(text(), self.number(), text()) for _ in range(3)),
            text(),
            f"{text()}\n{text()}",
            text(),
            devices=tuple(device.uuid for device in snapshot.devices[:3]),
            pids=(4000, 2**63),
            run=snapshot.runs[0].run_id if snapshot.runs else None,
            began_at=self.chance.choice(TIMES),
        )

    def snapshot(self, sequence: int = 0) -> Snapshot:
        metrics = list(dict.fromkeys(["loss", "lr", "epoch", "samples_per_s", "phase/data", self.text(), self.text()]))
        runs = tuple(
            self.run(number, metrics, self.chance.choice((1, 2, 4, 64))) for number in range(self.chance.choice((0, 1, 2)))
        )
        base = samples.snapshot(sequence)
        note = Problem(self.chance.choice(("other", "no_permission", "not_read")), self.text(), self.text())
        return replace(
            base,
            time=self.chance.choice(TIMES) if self.maybe(0.3) else EPOCH + sequence,
            interval_s=self.chance.choice((1.0, 0.1, 60.0)),
            host=self.changed(base.host, keep=("source",)),
            devices=tuple(self.device(index) for index in range(self.chance.choice((0, 1, 4, 16, 64)))),
            processes=tuple(self.process(number) for number in range(self.chance.choice((0, 1, 4, 64)))),
            runs=runs,
            points=tuple(points for run in runs for points in self.points(run, metrics)),
            notes=(note,) if self.maybe(0.5) else (),
        )

    def view(self) -> View:
        history = History()
        for sequence in range(2):
            snapshot = self.snapshot(sequence)
            history.observe(snapshot)
        findings = tuple(self.finding(snapshot) for _ in range(self.chance.choice((0, 1, 3))))
        settings = Settings(ascii=self.maybe(0.3), density=self.chance.choice(("auto", "compact", "comfortable")))
        return View(
            snapshot,
            history,
            findings,
            settings,
            run_id=snapshot.runs[0].run_id if snapshot.runs else None,
            stale_s=self.chance.choice((None, 12.0)),
            feed_problem=self.chance.choice((None, self.text())),
            abstained=(Abstained("F01", self.text(), self.text()),),
            diagnosis=Diagnosis(tuple(Episode(finding, EPOCH, None) for finding in findings)),  # type: ignore[arg-type]
        )


class Diagnosis:
    """A doctor with these findings, for the screens."""

    def __init__(self, episodes: tuple[Episode, ...]) -> None:
        self.episodes = episodes
        self.suppressed = tuple(episode.finding for episode in episodes)

    def verdicts(self) -> tuple[Any, ...]:
        return ()
