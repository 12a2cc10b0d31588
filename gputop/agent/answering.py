"""Passes a screen's questions to their readers, each in its own thread. A reader is imported with its first question."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from gputop.agent.process_reader import ProcessReader
from gputop.clocks import ClockAnswer, ClockQuestion
from gputop.process import ProcessQuestion
from gputop.profiled import ProfileQuestion
from gputop.questions import Answer, Question
from gputop.run_questions import GpusQuestion, RunsQuestion
from gputop.snapshot import Run

if TYPE_CHECKING:
    from gputop.agent.profile_reader import ProfileReader
    from gputop.agent.run_shelf import RunShelf
    from gputop.agent.where_reader import WhereReader


class Answering:
    """Answers questions through ``deliver``, which any thread may call."""

    def __init__(self, deliver: Callable[[Answer], object]) -> None:
        self._deliver = deliver
        self._processes = ProcessReader(deliver)
        self._shelf: RunShelf | None = None
        self._where: WhereReader | None = None
        self._profiles: ProfileReader | None = None

    def ask(self, question: Question, runs: Sequence[Run], curves: Collection[str] = ()) -> None:
        """Queue the question and return at once.

        ``runs`` are the runs of the last snapshot, ``curves`` the ids of those that are only curves of untracked runs.
        """
        if isinstance(question, ProcessQuestion):
            self._processes.ask(question)
        elif isinstance(question, ClockQuestion):
            self._deliver(ClockAnswer(question, time.time()))
        elif isinstance(question, RunsQuestion):
            if self._shelf is None:
                from gputop.agent.run_shelf import RunShelf

                self._shelf = RunShelf(self._deliver)
            self._shelf.ask(question)
        elif isinstance(question, GpusQuestion):
            from gputop.agent.gpu_pasts import ask

            ask(question, self._deliver)
        elif isinstance(question, ProfileQuestion):
            if self._profiles is None:
                from gputop.agent.profile_reader import ProfileReader

                self._profiles = ProfileReader(self._deliver)
            self._profiles.ask(question, runs)
        else:
            if self._where is None:
                from gputop.agent.where_reader import WhereReader

                self._where = WhereReader(self._deliver)
            self._where.ask(question, runs, curves)
