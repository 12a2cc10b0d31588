"""A first GPU that holds and does more than the others, in a table of nvidia-smi (B07)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.logs.numbers.gpus.test_polling import Gpu, table
from tests.doctor.logs.numbers.logs import found

FIRST, OTHER = (94, 293, 13_758), (41, 110, 4770)


def listed(*gpus: Gpu, pids: tuple[int, ...], name: str = "python") -> list[str]:
    return table(*gpus, names=(name,) * len(gpus), pids=pids)


@pytest.mark.parametrize("others", [(OTHER,), (OTHER, (39, 108, 4772), (0, 70, 4768))])
def test_the_first_holds_more_and_works_more(others: tuple[Gpu, ...], tmp_path: Path) -> None:
    rest = "other" if len(others) == 1 else "others"
    title = f"GPU 0 holds 2.9 times as much memory as the {rest}, and works more"
    for lines in (table(FIRST, *others), listed(FIRST, *others, pids=(812,) * 4)):
        finding = found(tmp_path, lines, "B07")
        assert finding is not None
        assert (finding.confidence, finding.title) == ("possible", title)
        assert finding.evidence[0].text == "GPU 0: 94%, 13.4 GiB in use"


@pytest.mark.parametrize(
    "lines",
    {
        "another one": table(OTHER, FIRST),
        "alone": table(FIRST),
        "empty ones": table(FIRST, (0, 24, 10)),
        "unequal ones": table(FIRST, OTHER, (48, 120, 3010)),
        "a little more": table(FIRST, (41, 110, 10_770)),
        "as busy": table(FIRST, (91, 280, 4770)),
        "ranks": listed(FIRST, OTHER, pids=(812, 813)),
        "a server": listed(FIRST, OTHER, pids=(812, 812), name="/usr/bin/ollama"),
        "a model that is split": ["model = AutoModel.from_pretrained(path, device_map='auto')", *table(FIRST, OTHER)],
    }.values(),
)
def test_gpus_that_may_differ(lines: list[str], tmp_path: Path) -> None:
    assert found(tmp_path, lines, "B07") is None
