"""Where the time of recorded steps was spent, and by which operators and kernels. Pure: events and samples in, seconds out.

Each moment counts as the first of these that applies: the training's thread is in a DataLoader; it waits for the GPU; an
operator runs, on that thread or on autograd's; a collective is in progress; else Python runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from gputop.profiled import Hot, ScriptLine
from gputop.profiles.trace import Event

TOP = 10
"""How many operators, kernels and lines of the script a profile lists."""
_DATA = "enumerate(DataLoader)"
_PEERS = ("gloo:", "nccl:", "mpi:", "ucc:", "c10d::", "_c10d_functional::", "record_param_comms")
_ON_THE_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_GPU_WAITS = ("Synchronize", "EventQuery")
Span = tuple[int, int]
Sample = tuple[int, str]
"""Wall clock in ns, and the script's line."""


def shares(events: Sequence[Event], windows: Sequence[Span]) -> dict[str, float]:
    """Return key of ``profiled.SHARES`` -> seconds within the windows. Shares of 0 are omitted."""
    kinds: dict[str, list[Span]] = {"data": [], "gpu": [], "operators": [], "peers": []}
    for event in events:
        kind = _kind(event)
        if kind is not None:
            kinds[kind].append((event.begin_ns, event.end_ns))
    left = _union(windows)
    found: dict[str, float] = {}
    for kind, spans in kinds.items():
        rest = _without(left, _union(spans))
        found[kind] = (_length(left) - _length(rest)) / 1e9
        left = rest
    found["python"] = _length(left) / 1e9
    return {kind: took for kind, took in found.items() if took > 0}


def gpu_busy_s(events: Sequence[Event], windows: Sequence[Span]) -> float | None:
    """Return for how many seconds of the windows a kernel or a copy ran on the GPU; None if no kernel was recorded."""
    if not any(event.category == "kernel" for event in events):
        return None
    within = _union(windows)
    busy = _union((event.begin_ns, event.end_ns) for event in events if event.category in _ON_THE_GPU)
    return (_length(within) - _length(_without(within, busy))) / 1e9


def ran_later(events: Sequence[Event]) -> bool:
    """Return whether kernels were launched and none was recorded: the GPU was still busy with what the host queued before."""
    launched = any("LaunchKernel" in event.name for event in events if event.category in ("cuda_runtime", "cuda_driver"))
    return launched and not any(event.category == "kernel" for event in events)


def script_lines(samples: Sequence[Sample], windows: Sequence[Span]) -> tuple[int, tuple[ScriptLine, ...]]:
    """Return the number of samples within the windows, and the lines of the script that most of them saw."""
    found = Counter(line for at_ns, line in samples if any(begin <= at_ns < end for begin, end in windows))
    return found.total(), tuple(ScriptLine(line, count) for line, count in found.most_common(TOP))


def operators(events: Sequence[Event], windows: Sequence[Span], samples: Sequence[Sample]) -> tuple[Hot, ...]:
    """Return the operators with the most own time in the windows."""
    threads: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.category == "cpu_op" and _kind(event) == "operators" and _within(event, windows):
            threads[event.thread].append(event)
    own: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    for found in threads.values():
        for event, own_ns in _own_times(found):
            own[event.name] += own_ns
            calls[event.name] += 1
            lines[event.name].update(_lines_in(samples, event.begin_ns, event.end_ns))
    return tuple(Hot(name, took / 1e9, calls[name], _most(lines[name])) for name, took in own.most_common(TOP) if took > 0)


def kernels(events: Sequence[Event], windows: Sequence[Span], samples: Sequence[Sample]) -> tuple[Hot, ...]:
    """Return the kernels with the most time on the GPU; a kernel's line is that of the call that launched it."""
    started = {
        event.correlation: event
        for event in events
        if event.correlation is not None and event.category in ("cuda_runtime", "cuda_driver")
    }
    own: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    lines: dict[str, Counter[str]] = defaultdict(Counter)
    for event in events:
        if event.category == "kernel":
            own[event.name] += event.length_ns
            calls[event.name] += 1
            start = None if event.correlation is None else started.get(event.correlation)
            if start is not None and _within(start, windows):
                line = _line_at(samples, start.begin_ns)
                lines[event.name].update([] if line is None else [line])
    return tuple(Hot(name, took / 1e9, calls[name], _most(lines[name])) for name, took in own.most_common(TOP) if took > 0)


def _kind(event: Event) -> str | None:
    if event.name.startswith(_DATA):
        return "data"
    if event.name.startswith(_PEERS):
        return "peers"
    if event.category in ("cuda_runtime", "cuda_driver"):
        return "gpu" if any(word in event.name for word in _GPU_WAITS) else None
    return "operators" if event.category == "cpu_op" else None


def _within(event: Event, windows: Sequence[Span]) -> bool:
    return any(begin <= event.begin_ns < end for begin, end in windows)


def _own_times(events: Sequence[Event]) -> Iterable[tuple[Event, int]]:
    """Yield each event of one thread with its length minus that of the events directly inside it."""
    stack: list[tuple[Event, list[int]]] = []
    for event in sorted(events, key=lambda item: (item.begin_ns, -item.length_ns)):
        while stack and stack[-1][0].end_ns <= event.begin_ns:
            done, (inside,) = stack.pop()
            yield done, max(0, done.length_ns - inside)
        if stack:
            stack[-1][1][0] += event.length_ns
        stack.append((event, [0]))
    for done, (inside,) in reversed(stack):
        yield done, max(0, done.length_ns - inside)


def _lines_in(samples: Sequence[Sample], begin_ns: int, end_ns: int) -> list[str]:
    first = bisect_left(samples, (begin_ns, ""))
    return [line for _, line in samples[first : bisect_left(samples, (end_ns, ""))]]


def _line_at(samples: Sequence[Sample], at_ns: int) -> str | None:
    """Return the line of the sample that is nearest."""
    index = bisect_left(samples, (at_ns, ""))
    near = samples[max(0, index - 1) : index + 1]
    return min(near, key=lambda sample: abs(sample[0] - at_ns))[1] if near else None


def _most(lines: Counter[str]) -> str | None:
    return lines.most_common(1)[0][0] if lines else None


def _union(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > begin:
            found.append((begin, end))
    return found


def _without(spans: Sequence[Span], taken: Sequence[Span]) -> list[Span]:
    """Return what is left of spans; both are ordered and do not overlap."""
    left: list[Span] = []
    first = 0
    for begin, end in spans:
        while first < len(taken) and taken[first][1] <= begin:
            first += 1
        for out, back in taken[first:]:
            if out >= end:
                break
            if out > begin:
                left.append((begin, out))
            begin = max(begin, back)
        if begin < end:
            left.append((begin, end))
    return left


def _length(spans: Sequence[Span]) -> int:
    return sum(end - begin for begin, end in spans)
