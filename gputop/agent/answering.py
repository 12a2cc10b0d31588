"""Passes a screen's questions to their readers, each in its own thread. A reader is imported with its first question.

A profile and a run's whereabouts take seconds, so only one of each is answered at a time: a question that arrives meanwhile is
dropped, and the screen asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gputop.agent.one_at_a_time import OneAtATime
from gputop.agent.process_reader import ProcessReader
from gputop.clocks import ClockAnswer, ClockQuestion
from gputop.process import ProcessQuestion
from gputop.profiled import STEPS_MAX, Profile, ProfileQuestion
from gputop.questions import Answer, Question
from gputop.run_questions import GpusQuestion, RunsQuestion
from gputop.snapshot import Run
from gputop.whereabouts.records import Whereabouts, WhereQuestion

if TYPE_CHECKING:
    from gputop.agent.run_shelf import RunShelf


class Answering:
    """Answers questions through ``deliver``, which any thread may call."""

    def __init__(self, deliver: Callable[[Answer], object]) -> None:
        self._deliver = deliver
        self._processes = ProcessReader(deliver)
        self._shelf: RunShelf | None = None
        self._where: OneAtATime[Whereabouts] = OneAtATime("where", deliver)
        self._profiles: OneAtATime[Profile] = OneAtATime("profile", deliver)

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
            if 1 <= question.steps <= STEPS_MAX:
                self._profiles.ask(partial(_profile, question, runs))
        else:
            self._where.ask(partial(_whereabouts, question, runs, curves))


def _profile(question: ProfileQuestion, runs: Sequence[Run]) -> Profile:
    from gputop.agent.profile_reader import answer_to

    return answer_to(question, runs)


def _whereabouts(question: WhereQuestion, runs: Sequence[Run], curves: Collection[str]) -> Whereabouts:
    from gputop.agent.where_reader import answer_to

    return answer_to(question, runs, curves)
