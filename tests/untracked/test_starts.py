"""Where the newest start begins in output that several starts append to."""

from __future__ import annotations

import pytest

from gputop.doctor.logs import lines
from gputop.untracked.starts import newest_start

BANNER = "2026-11-20 10:00:00 Using device cpu\nLoading 12 shards\n"
LATER = "2026-11-21 09:30:12 Using device cpu\nLoading 14 shards\n"
ERROR = 'Traceback (most recent call last):\n  File "train.py", line 3, in main\nKeyError: 1\n'


def steps(first: int, last: int) -> str:
    return "".join(f"step {step} loss 0.5\n" for step in range(first, last))


@pytest.mark.parametrize(
    ("before", "this"),
    [
        (BANNER + steps(0, 200), LATER + steps(0, 20)),
        (BANNER + steps(0, 200), LATER),
        (BANNER + steps(0, 200) + ERROR, LATER + steps(150, 180)),
        (BANNER + steps(0, 200) + LATER + steps(0, 90) + ERROR, LATER + steps(0, 5)),
        (steps(0, 200), ERROR + steps(0, 5)),
        (steps(0, 200), ERROR + "=> loading checkpoint last.pt\n" + steps(150, 160)),
        ("", BANNER + steps(0, 20)),
        ("", BANNER + steps(0, 20) + LATER + steps(20, 30)),
        ("", BANNER + steps(0, 20) + ERROR + steps(20, 30)),
        ("", "step 0 loss 1\n" + steps(1, 20) + steps(0, 20)),
    ],
    ids=[
        *("finished before", "no step yet", "resumed", "three starts", "a crash without first lines", "resumed, it says"),
        *("one start", "first lines again, steps go on", "an error that was caught", "steps begin anew, and nothing else does"),
    ],
)
def test_where_the_newest_start_begins(before: str, this: str) -> None:
    assert newest_start((before + this).encode(), True) == len(before)


def test_the_first_lines_of_a_part_are_not_those_of_the_file() -> None:
    data = (BANNER + steps(0, 200) + LATER + steps(0, 20)).encode()
    assert newest_start(data, False) == 0


def test_no_output_has_no_start() -> None:
    assert newest_start(b"", True) == 0


@pytest.mark.parametrize("often", [ERROR, BANNER], ids=["an error", "the first lines"])
def test_lines_of_every_step_are_not_examined_in_every_step(often: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mebibyte of such output took two minutes, on a core that the training wants."""
    looked: list[bytes] = []
    clean = lines.clean
    monkeypatch.setattr(lines, "clean", lambda raw: (looked.append(raw), clean(raw))[1])
    counts = []
    for last in (1000, 2000):
        looked.clear()
        assert newest_start("".join(f"{often}step {step} loss 0.5\n" for step in range(last)).encode(), True) == 0
        counts.append(len(looked))
    assert counts[0] == counts[1]
