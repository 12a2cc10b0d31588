"""Buckets in columns hold what as many lists of values would."""

from __future__ import annotations

import math
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from gputop.history.buckets import Bucket, Buckets

NUMBERS = st.floats(-1e6, 1e6) | st.integers(-3, 3) | st.sampled_from([math.nan, math.inf, -math.inf])
CHUNKS = st.lists(st.lists(st.tuples(st.floats(0, 100), NUMBERS), min_size=1, max_size=4), max_size=12)


def told(values: list[tuple[float, float]]) -> tuple[object, ...]:
    """What a bucket of these values has to say; text, because NaN is unlike itself."""
    xs, finite = [x for x, _ in values], [value for _, value in values if math.isfinite(value)]
    low, high = min(finite, default=math.inf), max(finite, default=-math.inf)
    last = finite[-1] if finite else values[0][1]
    return min(xs), max(xs), float(low), float(high), len(finite), str(float(last)), len(values) - len(finite)


def said(bucket: Bucket) -> tuple[object, ...]:
    return bucket.x_first, bucket.x_last, bucket.low, bucket.high, bucket.count, str(bucket.last), bucket.non_finite


def filled(chunks: list[list[tuple[float, float]]]) -> Buckets:
    """A bucket for each chunk: made of its first value, of all of them, or with others of one value, in turns."""
    buckets = Buckets()
    for number, chunk in enumerate(chunks):
        xs, values = [x for x, _ in chunk], [value for _, value in chunk]
        if number % 2 and len(chunk) > 1:
            buckets.append_all(xs, values)
            continue
        buckets.append_each(xs[:1], values[:1])
        if len(chunk) > 1:
            buckets.extend_last(xs[1:], values[1:])
    return buckets


@given(st.lists(st.tuples(st.floats(0, 100), NUMBERS), min_size=1, max_size=20))
def test_each_value_may_have_a_bucket_of_its_own(points: list[tuple[float, float]]) -> None:
    buckets = Buckets()
    buckets.append_each([x for x, _ in points], [value for _, value in points])
    assert [said(bucket) for bucket in buckets] == [told([point]) for point in points]


@given(CHUNKS, st.integers(-13, 13), st.integers(-13, 13))
def test_a_bucket_says_what_its_values_are(chunks: list[list[tuple[float, float]]], start: int, end: int) -> None:
    buckets = filled(chunks)
    wanted = [told(values) for values in chunks]
    assert len(buckets) == len(wanted)
    assert [said(bucket) for bucket in buckets] == wanted
    assert [said(buckets[place]) for place in range(len(buckets))] == wanted
    assert [said(bucket) for bucket in reversed(buckets)] == wanted[::-1]
    sums = [(bucket.x_first, bucket.x_last, bucket.total, bucket.count) for bucket in reversed(buckets)]
    assert list(buckets.newest_first()) == sums
    assert [said(bucket) for bucket in buckets[start:end]] == wanted[start:end]
    odd = [place for place, values in enumerate(chunks) if not all(math.isfinite(value) for _, value in values)]
    assert buckets.first_odd() == (odd[0] if odd else None)
    for bucket, values in zip(buckets, chunks, strict=True):
        assert math.isclose(bucket.total, math.fsum(value for _, value in values if math.isfinite(value)), abs_tol=1e-6)


@given(CHUNKS)
def test_neighbors_are_merged_in_pairs(chunks: list[list[tuple[float, float]]]) -> None:
    buckets = filled(chunks)
    buckets.halve()
    pairs = [list(chain(*chunks[place : place + 2])) for place in range(0, len(chunks), 2)]
    # A last value that is not finite stays where the first of the two had nothing else.
    assert [said(bucket)[:5] + said(bucket)[6:] for bucket in buckets] == [told(pair)[:5] + told(pair)[6:] for pair in pairs]


@given(CHUNKS, st.integers(0, 6), st.integers(1, 9))
def test_columns_are_the_buckets_by_their_middles(chunks: list[list[tuple[float, float]]], first: int, count: int) -> None:
    buckets, start, end = filled(chunks), 10.0, 90.0
    wanted: list[Bucket | None] = [None] * count
    for bucket in buckets[first:]:
        middle = (bucket.x_first + bucket.x_last) / 2
        if start <= middle <= end:
            place = min(count - 1, int((middle - start) * (count / (end - start))))
            held = wanted[place]
            if held is None:
                wanted[place] = bucket
            else:
                held.absorb(bucket)
    found: list[Bucket | None] = [None] * count
    for place, bucket in buckets.columns(first, len(buckets), start, end, count):
        held = found[place]
        if held is None:
            found[place] = bucket
        else:
            held.absorb(bucket)
    assert [held and said(held) for held in found] == [held and said(held) for held in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert one is None or other is None or math.isclose(one.total, other.total, abs_tol=1e-6)


@given(st.lists(st.tuples(st.floats(0, 100), NUMBERS), min_size=1, max_size=20), st.integers(1, 7))
def test_groups_of_values_are_buckets(points: list[tuple[float, float]], size: int) -> None:
    points = points * size
    buckets = Buckets()
    buckets.append_groups([x for x, _ in points], [value for _, value in points], size)
    assert [said(bucket) for bucket in buckets] == [told(points[start : start + size]) for start in range(0, len(points), size)]
