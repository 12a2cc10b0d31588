"""What a screen can ask the sampler: the questions as commands, and the answers as separate lines between the snapshots."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from gputop.clocks import ClockAnswer, ClockQuestion
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.profiled import Profile, ProfileQuestion
from gputop.run_questions import GpusAnswer, GpusQuestion, RunsAnswer, RunsQuestion
from gputop.whereabouts.records import Whereabouts, WhereQuestion
from gputop.wire import AnswerLine, decode

Question: TypeAlias = ProcessQuestion | RunsQuestion | GpusQuestion | WhereQuestion | ProfileQuestion | ClockQuestion


@dataclasses.dataclass(frozen=True, slots=True)
class Misunderstood(AnswerLine):
    """Instead of an answer: one end of the stream does not know what the other end sends, because their versions differ."""

    KEY = "misunderstood"

    what: str
    """The key of the question that the sampler does not know, or of the answer that the reader cannot read."""
    why: str = ""
    """The reason, in a sentence for the user. The reader sets it: it knows both versions."""


Answer: TypeAlias = ProcessAnswer | RunsAnswer | GpusAnswer | Whereabouts | Profile | ClockAnswer | Misunderstood

_QUESTIONS: Mapping[str, type[Question]] = {
    "process": ProcessQuestion,
    "runs": RunsQuestion,
    "gpus": GpusQuestion,
    "where": WhereQuestion,
    "profile": ProfileQuestion,
    "clock": ClockQuestion,
}
"""The command's only key -> what it holds."""
_ANSWERS: tuple[type[Answer], ...] = (ProcessAnswer, RunsAnswer, GpusAnswer, Whereabouts, Profile, ClockAnswer, Misunderstood)


def command_of(question: Question) -> dict[str, Any]:
    """Return the question as a command for the sampler."""
    (key,) = (key for key, kind in _QUESTIONS.items() if isinstance(question, kind))
    return {key: dataclasses.asdict(question)}


def question_in(command: Mapping[str, Any]) -> Question | None:
    """Return the question that a command asks; None if it asks none.

    Raises:
        FormatError: the question is not well formed.
    """
    for key, kind in _QUESTIONS.items():
        if key in command:
            return decode(kind, command[key])
    return None


def is_answer(line: bytes) -> bool:
    """Return whether a line of the stream carries an answer, without parsing it."""
    return any(kind.is_in(line) for kind in _ANSWERS)


def answer_in(line: bytes) -> Answer | None:
    """Return the answer that a line of the stream carries; None, without parsing the line, if it carries none.

    Raises:
        FormatError: the answer is not well formed.
    """
    return next((kind.from_json(line) for kind in _ANSWERS if kind.is_in(line)), None)
