"""The pictures that a newcomer sees first: simulated readings say so, and none of them looks like a screen that has stopped."""

from __future__ import annotations

import html

import pytest

from tests import REPOSITORY

PICTURES = ("docs/dashboard.svg", "docs/pictures/gputop.svg")


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_is_labelled_simulated_and_is_not_stale(picture: str) -> None:
    text = html.unescape((REPOSITORY / picture).read_text())
    assert "SIMULATED" in text
    assert "STALE" not in text
