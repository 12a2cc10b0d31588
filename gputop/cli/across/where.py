"""``gputop where -H``: asks the ranks of a run over several machines where they are. Each machine asks its own ranks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gputop.errors import UsageError
from gputop.hosts.state import SHOWING_STATES, HostStatus
from gputop.joined.processes import AskableRun, askable_runs
from gputop.joined.runs import JoinedRun, Seen, join
from gputop.joined.whereabouts import HostAnswer, confirmed, over_hosts
from gputop.questions import command_of
from gputop.snapshot import LIVE_STATES
from gputop.whereabouts.records import Whereabouts, WhereQuestion

if TYPE_CHECKING:
    from gputop.hosts.fleet import Fleet
    from gputop.hosts.following import Following

ANSWER_S = 20.0
"""How long to wait for an answer: it takes two seconds, and longer where /proc hangs."""
_BUSY_TRIES = 3
"""How often to retry a host whose sshd refuses connections."""


def ask_hosts(fleet: Fleet, name: str | None) -> tuple[Whereabouts, list[HostStatus]]:
    """Return where the ranks of a run are, and the state of each host. ``name`` is a run's id or name; None is the newest run.

    A run before its first step counts. If no tracked run is live, an untracked one counts too.

    Raises:
        UsageError: the hosts that can be read have no such run.
    """
    with contextlib.closing(fleet):
        fleet.start()
        seen = _first_look(fleet)
        run, questions = _chosen(join(seen), askable_runs(seen), name, [stream.status for stream in fleet.streams])
        answer = _ask(fleet, run, questions)
        if answer.verdict is not None:
            answer = confirmed(answer, _ask(fleet, run, questions))
        if any(question.pids for question in questions.values()):
            answer = replace(answer, run_id=None)  # it has none yet, or none that gputop knows
        return answer, [stream.status for stream in fleet.streams]


def _first_look(fleet: Fleet) -> list[Seen]:
    """Wait for a reading of each host, or for the reason why there is none."""
    seen: dict[str, Seen] = {}
    while not all(stream.status.host in seen or _is_lost(stream) for stream in fleet.streams):
        heard = fleet.take(0.2)
        if heard is not None and heard.snapshot is not None:
            host = heard.status.host
            seen[host] = Seen(host, heard.snapshot, heard.status.clock_offset_s or 0.0)
    return [seen[stream.status.host] for stream in fleet.streams if stream.status.host in seen]


def _is_lost(stream: Following) -> bool:
    return stream.failures >= (_BUSY_TRIES if stream.status.state == "busy" else 1)


def _chosen(
    runs: Sequence[JoinedRun], without_journal: Sequence[AskableRun], name: str | None, hosts: Sequence[HostStatus]
) -> tuple[JoinedRun, Mapping[str, WhereQuestion]]:
    """Return the requested run, and what to ask each host."""
    newest = sorted((run for run in runs if run.source is None), key=_created_at, reverse=True)
    others: list[AskableRun] = []
    if name is None:
        found = [run for run in newest if run.run.state in LIVE_STATES]
        since = _created_at(found[0]) if found else 0.0
        others = [run for run in without_journal if run.starting and _created_at(run.run) > since]
    else:
        found = [run for run in newest if run.run.run_id == name] or [run for run in newest if run.run.name == name]
    if found and not others:
        return found[0], {host: WhereQuestion(found[0].run.run_id) for host in found[0].known_by}
    others = others or [run for run in without_journal if name in (None, run.run.run.name)]
    if others:
        return others[0].run, others[0].questions
    unread = " ".join(status.sentence for status in hosts if status.last_heard_at is None)
    what = "There is no live run on these hosts." if name is None else f"There is no run {name!r} on these hosts."
    hint = "gputop --once -H lists their runs. A process is asked on its own machine: gputop where PID."
    raise UsageError(what, f"{unread} {hint}".strip())


def _created_at(run: JoinedRun) -> float:
    return run.run.created_at or 0.0


def _ask(fleet: Fleet, run: JoinedRun, questions: Mapping[str, WhereQuestion]) -> Whereabouts:
    """Ask the hosts, all at the same time."""
    asked = [stream for stream in fleet.streams if stream.status.host in questions]
    for stream in asked:
        stream.send(command_of(questions[stream.status.host]))
    answers: dict[str, HostAnswer] = {}
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        if all(stream.status.host in answers or stream.status.state not in SHOWING_STATES for stream in asked):
            break
        heard = fleet.take(0.2)
        if heard is None or not isinstance(heard.answer, Whereabouts):
            continue
        question = questions.get(heard.status.host)
        if question is not None and heard.answer.run_id == question.run_id:
            answers[heard.status.host] = HostAnswer(heard.status.host, heard.answer, heard.status.clock_offset_s or 0.0)
    return over_hosts(run, list(answers.values()), time.time())
