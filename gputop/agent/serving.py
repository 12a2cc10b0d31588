"""The stream: one line of JSON per interval, and the answers to a screen's questions between them.

``gputop agent`` runs ``main`` in a separate process, which reads commands from standard input, so that a hanging driver call
never freezes a screen. ``--stream`` and ``record`` write the same lines and send no commands.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from gputop.agent.nccl_turns import WhenToAsk
from gputop.agent.one_heap import GIVEN_BACK_S, give_back
from gputop.agent.process import WHOLE
from gputop.agent.sampler import Sampler
from gputop.agent.source import choose_source
from gputop.snapshot import Snapshot
from gputop.stream import SnapshotWriter
from gputop.wire import FormatError, parse_json

if TYPE_CHECKING:
    from gputop.agent.answering import Answering
    from gputop.questions import Answer

NEW_OBJECTS = 20_000
"""The garbage collector looks for cycles after this many new objects: a snapshot creates thousands, few of them in cycles."""
LAST_LINE_S = 5.0
"""How long an agent whose parent is gone may take for the line that it is writing."""
Inbox: TypeAlias = "queue.Queue[dict[str, Any] | Answer | None]"
"""The queue that ``serve`` waits on: commands, answers to write, and None after the last command."""


def serve(
    sampler: Sampler,
    write: Callable[[str], None],
    inbox: Inbox | None = None,
    *,
    form: Callable[[Snapshot], str] = Snapshot.to_json,
    whole: Callable[[], object] | None = None,
) -> None:
    """Write a snapshot per interval until ``write`` fails or the commands end (a ``None`` in ``inbox``).

    Commands are objects: ``{"interval_s": 2.0}``, ``{"pcie": true}`` (measure its throughput even if that is expensive),
    and the questions of ``gputop/questions.py``, such as ``{"process": {"pid": 4242}}``. Answers are written as soon as they
    arrive. A late tick is skipped, not caught up. ``form`` makes the line of a snapshot; ``whole`` is called if the reader
    has lost one (``{"whole": true}``).
    """
    answering: Answering | None = None
    due = time.monotonic()
    given_back_at = due
    while True:
        snapshot = sampler.take()
        write(form(snapshot))
        sampler.keep_gpus(snapshot)
        if time.monotonic() - given_back_at >= GIVEN_BACK_S:
            give_back()
            given_back_at = time.monotonic()
        if inbox is not None and answering is None:  # the first snapshot does not wait for it
            from gputop.agent.answering import Answering

            answering = Answering(inbox.put)
        due = max(due + sampler.interval_s, time.monotonic())
        while (wait := due - time.monotonic()) > 0:
            if inbox is None or answering is None:
                time.sleep(wait)
                continue
            try:
                item = inbox.get(timeout=wait)
            except queue.Empty:
                continue
            if item is None:
                return
            if not isinstance(item, dict):
                write(item.to_json())
            elif item == WHOLE:
                if whole is not None:
                    whole()
            elif apply(sampler, answering, item):
                due = time.monotonic()


def apply(sampler: Sampler, answering: Answering, command: Mapping[str, Any]) -> bool:
    """Execute one command; return True if a snapshot should follow at once. A question that it does not know, as from a newer
    screen, is refused.
    """
    from gputop.questions import question_in

    try:
        question = question_in(command)
    except FormatError:
        question = None
    if question is not None:
        answering.ask(question, sampler.listed_runs, sampler.listed_curves)
        return False
    if isinstance(command.get("pcie"), bool):
        sampler.source.want_pcie(command["pcie"])
        return False
    if isinstance(command.get("interval_s"), int | float):
        sampler.set_interval(float(command["interval_s"]))
        return True
    for key in command:
        answering.refuse(key)
    return False


def read_commands(stream: BinaryIO, inbox: Inbox) -> None:
    """Put each line of ``stream`` into ``inbox``, then ``None``: at the end of the stream, the parent is gone."""
    for line in stream:
        try:
            command = parse_json(line)
        except FormatError:
            continue
        if isinstance(command, dict):
            if isinstance(command.get("clock"), dict):  # it may wait here for a reading
                command["clock"]["received_at"] = time.time()
            inbox.put(command)
    inbox.put(None)


def follow_parent(stream: BinaryIO, inbox: Inbox) -> None:
    """Read commands until the parent is gone; end the process if the stream is not over soon after that.

    If it is not, nobody reads the line that is being written, although another process still holds the pipe open.
    """
    read_commands(stream, inbox)
    time.sleep(LAST_LINE_S)
    os._exit(0)


def main(
    interval_s: float,
    virtual: int | None,
    gpus: Sequence[str],
    ask_nccl: WhenToAsk,
    *,
    fall_back: bool = True,
    changes: bool = False,
) -> int:
    """Run the agent on standard input and output until either closes; never wait for a driver call.

    ``fall_back`` is passed to ``choose_source``. With ``changes``, a line leaves out what has not changed.
    """
    gc.set_threshold(NEW_OBJECTS)
    inbox: Inbox = queue.Queue()
    commands = open(0, "rb", closefd=False)  # noqa: SIM115 - read as long as this process lives; sys.stdin may be None
    threading.Thread(target=follow_parent, args=(commands, inbox), daemon=True, name="commands").start()
    source, problem = choose_source(interval_s, virtual, fall_back=fall_back)
    sampler = Sampler(source, interval_s, problem=problem, gpus=gpus, ask_nccl=ask_nccl)
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        if changes:
            writer = SnapshotWriter()
            serve(sampler, write_line, inbox, form=writer.line, whole=writer.forget)
        else:
            serve(sampler, write_line, inbox, form=partial(Snapshot.to_json, compact=True))
    source.close()
    # A thread stuck in the driver would keep the interpreter from exiting, so exit without it.
    os._exit(0)


def write_line(line: str) -> None:
    """Write one line to standard output at once.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    data = line.encode() + b"\n"
    descriptor = sys.stdout.fileno()
    while data:
        select.select((), (descriptor,), ())
        data = data[os.write(descriptor, data) :]
