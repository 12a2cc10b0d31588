"""Runs that are not in the stream: the questions to the sampler, and its answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gputop.history.history import History
from gputop.run_questions import GpusAnswer, GpusQuestion, RunsAnswer, RunsQuestion
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.state.untracked import listed_runs, without_curve
from gputop.tui.state.view import View

ASK_EVERY_S = 3.0
"""A question or its answer may get lost: the sampler answers only the newest question."""

AHEAD_SERIES_MOST = 16
"""Runs with more series, over all ranks, are not read ahead: on a slow machine, each takes 3 ms (our choice)."""


class StoredRuns:
    """Knows the stored runs of one screen. A replay has none: everything is in its recording."""

    def __init__(self) -> None:
        self.listed: tuple[Run, ...] = ()
        self._answered = False
        self._whole: dict[str, Run] = {}
        self._gone: set[str] = set()
        self._last: dict[str, Run] = {}
        self._had_gpus: dict[str, bool] = {}
        """Ids of the runs whose GPUs are known -> whether readings of any were recorded."""

    def is_complete(self, view: View) -> bool:
        """Return whether the list is known."""
        return self._answered or view.feed != "live"

    def question(self, wanted: Iterable[str], view: View) -> RunsQuestion | None:
        """Return what to ask next, so that the list and the points of ``wanted`` runs are known; None if they are."""
        if view.feed != "live":
            return None
        streamed = {run.run_id for run in listed_runs(view.snapshot)}
        missing = tuple(run_id for run_id in wanted if run_id and run_id not in streamed and not self._has(run_id, view))
        if missing:
            return RunsQuestion(missing)
        return None if self._answered else RunsQuestion()

    def gpus_question(self, run_id: str, view: View) -> GpusQuestion | None:
        """Return what to ask for the past of a run's GPUs; None if it is known."""
        if view.feed != "live" or not run_id or self._has_gpus(run_id, view) or without_curve(run_id, view.snapshot):
            return None
        return GpusQuestion((run_id,))

    def questions_ahead(self, likely: Sequence[str], view: View) -> tuple[RunsQuestion | GpusQuestion, ...]:
        """Return what to ask about the first of these runs that would need reading when it is chosen; nothing if none would.

        Nothing before the list is known: with the list, a long journal is read once, and is quick to read afterwards. Nothing
        of another machine, whose link may be slow, nor of runs with many series, which take long to take in.
        """
        if view.feed != "live" or view.remote is not None or not self._answered:
            return ()
        streamed = {run.run_id for run in listed_runs(view.snapshot)}
        listed = {run.run_id: run for run in self.listed if run.run_id in likely and run.run_id not in streamed}
        for run_id in likely:
            if run_id not in listed or _series(listed[run_id]) > AHEAD_SERIES_MOST:
                continue
            found = ((RunsQuestion((run_id,)),) if not self._has(run_id, view) else ()) + (
                (GpusQuestion((run_id,)),) if not self._has_gpus(run_id, view) else ()
            )
            if found:
                return found
        return ()

    def past_question(self, view: View) -> GpusQuestion | None:
        """Return what to ask for the GPUs of a live run that is older than what this screen has seen; None if it is known."""
        run, began = view.run, view.history.started_at
        if run is None or run.state not in LIVE_STATES or began is None or (run.created_at or began) >= began:
            return None
        return self.gpus_question(run.run_id, view)

    def take_gpus(self, answer: GpusAnswer, history: History) -> None:
        """Keep an answer; the readings go to the history."""
        for run_id in answer.question.run_ids:
            history.recall_gpus(run_id, answer.gpus)
            self._had_gpus[run_id] = bool(history.gpus_of(run_id))

    def _has_gpus(self, run_id: str, view: View) -> bool:
        """Return whether the GPUs are known: the history forgets those of runs that were looked at long ago."""
        had = self._had_gpus.get(run_id)
        return had is not None and (not had or bool(view.history.gpus_of(run_id)))

    def _has(self, run_id: str, view: View) -> bool:
        run = self._whole.get(run_id)
        logged = run is not None and any(rank.metrics for rank in run.ranks)
        return run_id in self._gone or (run is not None and (not logged or bool(view.history.metrics(run_id))))

    def take(self, answer: RunsAnswer, history: History) -> None:
        """Keep an answer; points go to the history."""
        if not answer.question.run_ids:
            self.listed, self._answered = answer.runs, True
            return
        if answer.problem:
            return
        self._whole.update((run.run_id, run) for run in answer.runs)
        self._gone.update(set(answer.question.run_ids) - {run.run_id for run in answer.runs})
        history.recall(answer.points)

    def find(self, run_id: str, view: View) -> Run | None:
        """Return a run as the stream has it, else as it is stored, else as it was last seen; None if it is unknown.

        An untracked run that ends is in neither, and nothing shows how it ended: it is unheard.
        """
        found = next((run for run in listed_runs(view.snapshot) if run.run_id == run_id), None) or self._whole.get(run_id)
        found = found or next((run for run in self.listed if run.run_id == run_id), None)
        if found is not None:
            if without_curve(run_id, view.snapshot) is None:
                self._last[run_id] = found
            return found
        last = self._last.get(run_id)
        if last is not None and last.state in LIVE_STATES and last.state != "unheard":
            ranks = (replace(rank, state="unheard") if rank.state in LIVE_STATES else rank for rank in last.ranks)
            last = self._last[run_id] = replace(last, state="unheard", ranks=tuple(ranks))
        return last


def _series(run: Run) -> int:
    """Return how many series of metrics a run has; in a list, only the first rank has values."""
    return len(run.ranks) * max((len(rank.metrics) for rank in run.ranks), default=0)
