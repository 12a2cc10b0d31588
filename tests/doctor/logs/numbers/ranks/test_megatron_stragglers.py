"""Reports of Megatron's straggler detector."""

from __future__ import annotations

from pathlib import Path

from tests.doctor.logs.numbers.logs import found


def reports(
    slow: float = 1216.96,
    heat: int = 92,
    clock: int = 855,
    ranks: tuple[int, ...] = (13, 13, 13),
    hot: int | None = None,
    low: int | None = None,
) -> list[str]:
    """Return reports of these slowest ranks; ``hot``, ``low``: another one is the hottest, or has the lowest clock."""
    return [
        f"INFO:megatron.core.utils:[2024-09-03 22:3{at}:05] | MnRtt/Rnk: 639.72ms/5 | MxRtt/Rnk: {slow}ms/{rank} | "
        f"MnTmp/Rnk: 51C/4 | MxTmp/Rnk: {heat}C/{hot or rank} | MnClk/Rnk: {clock}MHz/{low or rank} | MxClk/Rnk: 1740MHz/2"
        for at, rank in enumerate(ranks)
    ]


def test_a_rank_that_heat_slows_down(tmp_path: Path) -> None:
    finding = found(tmp_path, reports(), "I01")
    assert finding is not None
    assert finding.title == "GPU of rank 13 is throttled by heat"
    assert found(tmp_path, reports(), "F02") is None


def test_one_that_is_only_slower(tmp_path: Path) -> None:
    for log in (reports(heat=70), reports(clock=1700), reports(hot=7), reports(low=7), reports(hot=7, low=7)):
        finding = found(tmp_path, log, "F02")
        assert finding is not None
        assert finding.title.startswith("Rank 13 computes longer")
        assert found(tmp_path, log, "I01") is None


def test_one_that_is_hardly_slower_or_another_one_each_time(tmp_path: Path) -> None:
    for log in (reports(slow=660.0), reports(ranks=(1, 2, 3, 4))):
        assert found(tmp_path, log, "F02") is None
        assert found(tmp_path, log, "I01") is None
