"""What happened along a run's axis: epochs, checkpoints, the first NaN, and what the doctor found. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.history.history import History
from gputop.history.metrics import MetricSeries
from gputop.snapshot import Run
from gputop.tui.drawing.large_chart import Note
from gputop.tui.drawing.line import clean
from gputop.tui.drawing.runs.overlay import Layer
from gputop.tui.drawing.runs.positions import epochs_of
from gputop.tui.state.view import View

CHECKPOINT_METRIC = "checkpoint_s"
CELLS_PER_NOTE = 14
"""More frequent notes of one kind are thinned out."""
AFTER_S = 600.0
"""What happens up to this long after the last value, such as a stall, is shown at the last step."""
_STYLES = {"error": "bad", "warning": "warn"}


def notes_of(layers: Sequence[Layer], view: View, start: float, end: float, columns: int) -> tuple[Note, ...]:
    """Return the notes above the curves between two x, the most important first.

    For several runs, only the first NaN of each: more would be crowded.
    """
    alone = len(layers) == 1
    notes: list[Note] = []
    for layer in layers:
        notes += _first_odd(layer, "" if alone else f" {clean(layer.run.name)}")
    if alone:
        most = max(1, columns // CELLS_PER_NOTE)
        held = layers[0]
        notes += _thinned(_findings(held, view), start, end, most)
        notes += _thinned(_checkpoints(held, view.history), start, end, most)
        notes += _thinned(_epochs(held, view.history), start, end, most)
    return tuple(notes)


def _first_odd(layer: Layer, whose: str) -> Iterator[Note]:
    """Yield where values stop being numbers, on the first such rank, and at which step."""
    firsts = [found for item in layer.series.values() if (found := _first_odd_of(item)) is not None]
    if firsts:
        step, at = min(firsts)
        place = layer.where.to_x(step if layer.where.base == "step" else at)
        yield Note(place, f"NaN at step {units.count(step)}{whose}", "bad")


def _first_odd_of(item: MetricSeries) -> tuple[float, float] | None:
    """Return the step and the time of a rank's first NaN or infinity."""
    place = item.by_step.buckets.first_odd()
    return (item.by_step.buckets.x_first[place], item.by_time.buckets.x_first[place]) if place is not None else None


def _findings(layer: Layer, view: View) -> Iterator[Note]:
    place = time_to_x(layer)
    seen: set[tuple[str, float]] = set()
    for finding, began_at in _found_in(layer.run, view):
        x = place(began_at)
        if x is not None and (finding.id, x) not in seen:
            seen.add((finding.id, x))
            yield Note(x, finding.id, _STYLES.get(finding.severity, "dim"))


def _found_in(run: Run, view: View) -> Iterator[tuple[Finding, float]]:
    """Yield what the doctor found in a run while gputop watched, and since when."""
    pids = {rank.local_pid for rank in run.ranks if rank.local_pid is not None}
    past = [(episode.finding, episode.began_at) for episode in view.diagnosis.episodes] if view.diagnosis is not None else []
    now = [(finding, finding.began_at) for finding in view.findings]
    for finding, began_at in (*past, *now):
        about = finding.run == run.run_id or (finding.run is None and not pids.isdisjoint(finding.pids))
        if about and began_at is not None:
            yield finding, began_at


def _checkpoints(layer: Layer, history: History) -> Iterator[Note]:
    series = next(iter(history.metric(layer.run.run_id, CHECKPOINT_METRIC).values()), None)
    if series is not None:
        kept = series.by_step if layer.where.base == "step" else series.by_time
        for bucket in kept.buckets:
            yield Note(layer.where.to_x(bucket.x_first), "ckpt", "accent")


def _epochs(layer: Layer, history: History) -> Iterator[Note]:
    place = time_to_x(layer)
    boundaries = [(at, epoch) for at, epoch in epochs_of(layer.run, history, by_step=False) if epoch == int(epoch)]
    for at, epoch in boundaries[1:]:
        x = place(at)
        if x is not None:
            yield Note(x, f"epoch {int(epoch)}", "dim")


def time_to_x(layer: Layer) -> Callable[[float], float | None]:
    """Return a function from wall-clock seconds to the layer's x; it returns None for times outside of the run."""
    if layer.where.base == "time":
        return layer.where.to_x
    series = next(iter(layer.series.values()))
    times, steps = [bucket.x_first for bucket in series.by_time.buckets], series.by_step.buckets
    if len(times) != len(steps):
        return lambda _: None

    def place(at: float) -> float | None:
        if not times or not times[0] <= at <= times[-1] + AFTER_S:
            return None
        return layer.where.to_x(steps[min(bisect.bisect_left(times, at), len(times) - 1)].x_first)

    return place


def _thinned(notes: Iterable[Note], start: float, end: float, most: int) -> list[Note]:
    """Return the notes between two x, every n-th if there are more than ``most``."""
    visible = [note for note in notes if start <= note.x <= end]
    return visible[:: -(-len(visible) // most)] if visible else []
