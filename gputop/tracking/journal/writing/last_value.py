"""The last value of a metric, looked up in the journal's memory: ``log`` keeps none, because that would make every call
slower."""

from __future__ import annotations

from gputop.tracking.journal import format as form
from gputop.tracking.journal.writing.writer import Journal


class LastValues:
    """Finds the last value of each metric, also once the journal is closed, as far back as the ring goes."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._plans = journal.plans

    def __call__(self, name: str) -> float | None:
        """Return the last value; None if the metric was not logged, or too long ago. Takes milliseconds."""
        journal = self._journal
        if not journal.closed:
            journal.catch_up()
            journal.collect()
        columns = {plan[0]: names.index(name) for names, plan in list(self._plans.items()) if name in names}
        head, capacity = journal.words[form.W_HEAD], journal.capacity
        oldest = max(0, head - capacity + form.SEGMENT_BYTES)
        segment = (head - 1) // form.SEGMENT_BYTES * form.SEGMENT_BYTES
        while columns and head and segment >= oldest:
            found = self._in_segment(segment, min(head, segment + form.SEGMENT_BYTES), columns)
            if found is not None:
                return found
            segment -= form.SEGMENT_BYTES
        return None

    def _in_segment(self, start: int, end: int, columns: dict[int, int]) -> float | None:
        words, doubles = self._journal.words, self._journal.doubles
        at = form.RING_DATA_OFFSET + start % self._journal.capacity >> 3
        stop = at + (end - start >> 3)
        found = None
        while at < stop:
            word = words[at]
            column = columns.get(word)
            if column is not None:
                found = doubles[at + 3 + column]
            size = word >> 35  # the record's bytes are in the upper half; this is its number of words
            if size < 1:
                break
            at += size
        return found
