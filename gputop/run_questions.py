"""What a screen asks the sampler about runs that the stream does not carry, and the answer: a line of its own in the stream.

The stream carries live runs and the newest ended ones. ``RunsQuestion`` without ids asks for a list of all runs on the disk;
with ids, for those runs whole: what they state, and their points.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from gputop.snapshot import Points, Run
from gputop.wire import FormatError, decode, encode, parse_json

RUNS_ANSWER = "runs_answer"
"""The only key of the line that carries a ``RunsAnswer``; no snapshot has it."""
_ANSWER_START = f'{{"{RUNS_ANSWER}":'.encode()


@dataclass(frozen=True, slots=True)
class RunsQuestion:
    """A screen's question about stored runs: all of them in short, or those with ``run_ids`` whole."""

    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunsAnswer:
    """The sampler's answer. The runs of a list carry no facts, only means of the ranks' values, and no points."""

    question: RunsQuestion
    runs: tuple[Run, ...] = ()
    points: tuple[Points, ...] = ()
    problem: str | None = None
    """Why nothing could be read, if the failure was unexpected."""

    def to_json(self) -> str:
        """Return the answer as one line of JSON, without a newline."""
        return json.dumps({RUNS_ANSWER: encode(self, True)}, separators=(",", ":"))

    @staticmethod
    def is_in(line: bytes) -> bool:
        """Return whether a line of the stream carries such an answer, without parsing the line."""
        return line.startswith(_ANSWER_START)

    @staticmethod
    def from_json(line: str | bytes) -> RunsAnswer:
        """Parse an answer.

        Raises:
            FormatError: the line is not an answer.
        """
        try:
            return decode(RunsAnswer, parse_json(line, None)[RUNS_ANSWER])
        except (FormatError, TypeError, LookupError) as error:
            raise FormatError(f"not an answer about runs: {error}") from error
