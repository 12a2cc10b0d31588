"""The options of a screen's own sampler are read as the parser of the command line reads them."""

from __future__ import annotations

import itertools

import pytest

from gputop.agent.first_look import OPTION as FIRST_LOOK
from gputop.agent.process import CHANGES
from gputop.cli.parser import parse
from gputop.cli.sampling import screen_options

PARTS = ((CHANGES,), (FIRST_LOOK,), ("-i", "500ms"), ("--interval", "2"), ("-g", "0,1"), ("--no-nccl-ras",), ("--no-stand-in",))
USED = ("interval", "gpus", "virtual", "ask_nccl", "first_look", "changes", "no_stand_in", "config")


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_what_is_read_without_the_parser_is_what_the_parser_reads(number: int) -> None:
    for parts in itertools.permutations(PARTS, number):
        words = [word for part in parts for word in part]
        ours, parsed = screen_options(words), parse(["agent", *words])
        assert ours is not None
        assert {name: getattr(ours, name) for name in USED} == {name: getattr(parsed, name) for name in USED}, words


def test_the_sampler_is_asked_to_ask_nccl_whatever_the_settings_say() -> None:
    for words in (["--nccl-ras"], ["--no-nccl-ras"]):
        ours, parsed = screen_options(words), parse(["agent", *words])
        assert ours is not None
        assert ours.ask_nccl == parsed.ask_nccl


@pytest.mark.parametrize("words", ["--help", "-i", "-i --changes", "-i2", "--interval=2", "--virtual 2", "-i 1 more"])
def test_other_words_are_left_to_the_parser(words: str) -> None:
    assert screen_options(words.split()) is None
