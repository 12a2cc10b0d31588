"""Asks a rank of a run for a profile, waits for it, and keeps its trace next to the run."""

from __future__ import annotations

import gzip
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from gputop.places import make_private_dir, replace_file, state_dir
from gputop.profiled import Profile, refused
from gputop.profiles import reduced
from gputop.profiles.trace import Trace, joined, parse
from gputop.snapshot import Run
from gputop.tracking.journal import format as form
from gputop.tracking.journal.read import open_checked
from gputop.tracking.profiling import exchange
from gputop.where.rings import Ring, rings_of

ANSWER_S = 8.0
"""A rank checks for a request every 2 s, on a thread that may wait for its disk or for the interpreter."""
RECORD_S = 20.0
RECORD_STEPS = 15
"""A profile may take the time of this many steps for each recorded step, plus ``RECORD_S``."""
LATER = (
    "the GPU did this work later, after what the host had queued before: its kernels are not recorded. With loss.item() in "
    "each step, for the time of a profile, the host waits for them"
)
TRACE_BYTES_MAX = 64 << 20
"""A larger trace is not read."""
SAMPLES_MAX = 4000
"""How many samples of the script's lines are read."""
_POLL_S = 0.05
"""How often to look for the rank's answer."""


def ask(run: Run, steps: int, *, go: bool, rank: int | None = None, runs_dir: Path | None = None) -> Profile:
    """Return a profile of ``steps`` steps of a rank, by default the lowest; unless ``go``, only its expected cost. If there is
    an obstacle, the answer names it. Takes seconds.
    """
    with _ring_of(run, rank, runs_dir) as ring:
        if ring is None:
            which = "No rank of this run can" if rank is None else f"Rank {rank} of this run cannot"
            why = f"{which} be asked here: only a live rank can, on the machine that it runs on."
            return refused(run.run_id, run.name, why, rank=rank)
        number = ring.identity.rank
        request = exchange.Request(secrets.token_hex(8), steps, go, time.time())
        try:
            answer = _answer(ring.path, request)
            if answer is None:
                why = f"Rank {number} did not answer within {ANSWER_S:g} s."
                return refused(
                    run.run_id,
                    run.name,
                    why,
                    "gputop where shows what the rank does; a rank under an older gputop takes no profile.",
                    number,
                )
            return _read(run, number, ring, request, answer)
        except (OSError, ValueError) as error:
            return refused(run.run_id, run.name, f"The profile could not be read: {error}.", rank=number)


@contextmanager
def _ring_of(run: Run, rank: int | None, runs_dir: Path | None) -> Iterator[Ring | None]:
    rings = rings_of(run, runs_dir)
    try:
        yield rings.get(min(rings)) if rings and rank is None else rings.get(-1 if rank is None else rank)
    finally:
        for ring in rings.values():
            ring.close()


def _answer(ring: Path, request: exchange.Request) -> dict[str, Any] | None:
    """Write the request and return the answer; None if there is none in time."""
    path = exchange.request_path(ring)
    exchange.put(path, {"id": request.id, "steps": request.steps, "go": request.go, "at": request.at})
    deadline = time.monotonic() + ANSWER_S
    found: dict[str, Any] | None = None
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        try:
            content = exchange.read(exchange.answer_path(ring))
        except FileNotFoundError:
            if found is None or ring.exists():
                continue
            return {"state": "refused", "why": "The run ended meanwhile."}
        if content.get("id") != request.id:
            continue
        if content.get("state") != "recording":
            return content
        if found is None:
            found = content
            deadline = time.monotonic() + RECORD_S + RECORD_STEPS * request.steps * (_seconds(content, "step_s") or 0.0)
    with suppress(OSError):
        os.unlink(path)
    return None if found is None else {"state": "refused", "why": "The recording did not end in time: are there still steps?"}


def _read(run: Run, rank: int, ring: Ring, request: exchange.Request, answer: Mapping[str, Any]) -> Profile:
    known = Profile(run.run_id, run.name, rank, "refused", step_s=_seconds(answer, "step_s"), steps=request.steps)
    if answer.get("state") == "offer" and not request.go:
        return replace(known, state="offer", expected_s=_seconds(answer, "expected_s"))
    if answer.get("state") != "done":
        return replace(known, why=str(answer.get("why") or "the rank did not say why")[:500])
    names = answer.get("traces")
    paths = [
        exchange.trace_path(ring.path, request.id, number) for number in range(len(names) if isinstance(names, list) else 0)
    ]
    try:
        traces = [parse(_bytes(path)) for path in paths[: exchange.STEPS_MAX]]
    finally:
        for path in paths:
            with suppress(OSError):
                os.unlink(path)
    if not traces:
        raise ValueError("it holds no trace")
    windows, samples = _spans(answer.get("windows")), _samples(answer.get("samples"))
    events = [event for trace in traces for event in trace.events]
    note = answer.get("note") or (LATER if reduced.ran_later(events) else None)
    taken, script_lines = reduced.script_lines(samples, windows)
    return replace(
        known,
        state="done",
        steps=len(traces),
        longest_s=_seconds(answer, "longest_s"),
        extra_s=_seconds(answer, "extra_s"),
        note=str(note)[:500] if note else None,
        recorded_s=sum(end - begin for begin, end in windows) / 1e9,
        shares=reduced.shares(events, windows),
        gpu_busy_s=reduced.gpu_busy_s(events, windows),
        operators=reduced.operators(events, windows, samples),
        kernels=reduced.kernels(events, windows, samples),
        samples=taken,
        script_lines=script_lines,
        trace=str(_keep(traces, _directory(run, ring.path), rank)),
    )


def _bytes(path: Path) -> bytes:
    with os.fdopen(open_checked(path), "rb") as file:
        found = file.read(TRACE_BYTES_MAX + 1)
    if len(found) > TRACE_BYTES_MAX:
        raise ValueError("the trace is too large")
    return found


def _directory(run: Run, ring: Path) -> Path:
    """Return the directory of the run's journals, or one in its place where nothing is kept on disk."""
    fd = open_checked(ring)
    try:
        archive = form.unpack_header(os.pread(fd, form.HEADER_BYTES, 0)).partner
    finally:
        os.close(fd)
    return Path(archive).parent if archive else make_private_dir(state_dir() / "profiles" / run.run_id)


def _keep(traces: Sequence[Trace], directory: Path, rank: int) -> Path:
    """Write the trace as Perfetto reads it, and return where."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = directory / f"profile-rank-{rank}-{stamp}.json.gz"
    replace_file(path, gzip.compress(json.dumps(joined(list(traces))).encode(), 6))
    return path


def _seconds(content: Mapping[str, Any], key: str) -> float | None:
    value = content.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 else None


def _spans(value: Any) -> list[tuple[int, int]]:
    found = [item for item in value if _is_times(item, 2)] if isinstance(value, list) else []
    return [(item[0], item[1]) for item in found if item[0] < item[1]]


def _is_times(item: Any, count: int) -> bool:
    return isinstance(item, list) and len(item) == count and all(type(at) is int and 0 <= at < 1 << 62 for at in item)


def _samples(value: Any) -> list[tuple[int, str]]:
    found = value[:SAMPLES_MAX] if isinstance(value, list) else []
    return sorted(
        (item[0], f"{item[1]} {item[2]}")
        for item in found
        if isinstance(item, list)
        and len(item) == 3
        and type(item[0]) is int
        and all(isinstance(word, str) for word in item[1:])
    )
