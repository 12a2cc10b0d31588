"""A profile as the screen shows it: every figure of the text, with bars that compare them, at any width."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.profiled import Hot, lines
from gputop.tui.drawing.line import Line, plain, width
from gputop.tui.drawing.profile import draw_profile
from tests.tui.screens.profile.test_profile_screen import DONE

FULL = replace(
    DONE,
    shares={"gpu": 0.18, "operators": 0.06, "data": 0.03, "python": 0.03},
    operators=(
        Hot("aten::_scaled_dot_product_flash_attention", 0.2, 1440, "model.py:61 attend"),
        Hot("aten::addmm", 0.1, 96, "torch/nn/parallel/distributed.py:1600 forward"),
        Hot("aten::mul", 0.0, 3, None),
    ),
)


def rows_with(word: str, drawn: tuple[Line, ...]) -> list[str]:
    return [plain(row) for row in drawn if word in plain(row)]


@pytest.mark.parametrize("ascii_only", [False, True], ids=["unicode", "ascii"])
@pytest.mark.parametrize("cells", [40, 78, 98, 158])
def test_every_figure_of_the_text_is_shown(cells: int, ascii_only: bool) -> None:
    drawn = draw_profile(FULL, cells, ascii_only)
    shown = " ".join(" ".join(plain(row) for row in drawn).split())
    for text in (" ".join(line.split()) for line in lines(FULL)[1:]):
        for figure in (part for part in text.split() if part[0].isdigit() and part[-1] in "%xs"):
            assert figure in shown
    if ascii_only:
        assert shown.isascii()


@pytest.mark.parametrize("cells", [78, 98, 158])
def test_no_row_is_wider_than_the_screen(cells: int) -> None:
    assert [plain(row) for row in draw_profile(FULL, cells) if width(row) > cells] == []


def test_bars_are_in_proportion_and_only_where_there_is_room() -> None:
    wide, narrow = draw_profile(FULL, 158), draw_profile(FULL, 78)
    bars = {word: rows_with(word, wide)[0].count("━") for word in ("waiting", "attention", "addmm", "mul  ")}
    assert bars == {"waiting": 12, "attention": 20, "addmm": 10, "mul  ": 0}
    assert rows_with("addmm", narrow)[0].count("━") == 0
    assert rows_with("waiting", narrow)[0].count("━") == 12


def test_a_narrow_screen_shortens_names_before_lines_of_the_script() -> None:
    (row,) = rows_with("model.py:61 attend", draw_profile(FULL, 78))
    assert "aten::_scaled_dot_p" in row
    assert "…" in row
