"""Passes a screen's questions to their readers, each in its own thread. A reader is imported with its first question.

A profile and a run's whereabouts take seconds, so only one of each is answered at a time: a question that arrives meanwhile is
dropped, and the screen asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from gputop.agent import process_reader
from gputop.agent.newest_wins import NewestWins
from gputop.agent.one_at_a_time import OneAtATime
from gputop.clocks import ClockAnswer, ClockQuestion
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.profiled import STEPS_MAX, Profile, ProfileQuestion
from gputop.questions import Answer, Misunderstood, Question
from gputop.run_questions import GpusQuestion, RunsAnswer, RunsQuestion
from gputop.snapshot import Run
from gputop.whereabouts.records import Whereabouts, WhereQuestion


class Answering:
    """Answers questions through ``deliver``, which any thread may call."""

    def __init__(self, deliver: Callable[[Answer], object]) -> None:
        self._deliver = deliver
        self._processes: NewestWins[ProcessQuestion, ProcessAnswer] = NewestWins(
            "process", process_reader.answer_to, deliver, process_reader.READERS_MAX
        )
        self._runs: NewestWins[RunsQuestion, RunsAnswer] = NewestWins("runs", _stored_runs, deliver)
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
            self._runs.ask(question)
        elif isinstance(question, GpusQuestion):
            from gputop.agent.gpu_pasts import ask

            ask(question, self._deliver)
        elif isinstance(question, ProfileQuestion):
            if 1 <= question.steps <= STEPS_MAX:
                self._profiles.ask(partial(_profile, question, runs))
        else:
            self._where.ask(partial(_whereabouts, question, runs, curves))

    def refuse(self, key: str) -> None:
        """Answer that this sampler does not know the question with this key."""
        self._deliver(Misunderstood(key))


def _stored_runs(question: RunsQuestion) -> RunsAnswer:
    from gputop.agent.stored_runs import answer_to

    return answer_to(question)


def _profile(question: ProfileQuestion, runs: Sequence[Run]) -> Profile:
    from gputop.agent.profile_reader import answer_to

    return answer_to(question, runs)


def _whereabouts(question: WhereQuestion, runs: Sequence[Run], curves: Collection[str]) -> Whereabouts:
    from gputop.agent.where_reader import answer_to

    return answer_to(question, runs, curves)
