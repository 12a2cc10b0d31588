"""Filters of runs: what each kind of term keeps, and that no text makes the parser fail but in words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.errors import UsageError
from gputop.filters.runs import FIELDS, parse
from gputop.snapshot import Rank, Run
from tests.fuzzing import examples

NOW = 10_000.0


def run_with(**changes: object) -> Run:
    held: dict[str, object] = {
        "run_id": "r-17",
        "name": "ResNet base",
        "project": "vision",
        "state": "failed",
        "created_at": NOW - 7200,
        "ended_at": NOW - 3600,
        "config": {"lr": 0.01, "model": "resnet18", "optimizer": {"momentum": 0.9}, "seed": "7", "loss": None},
        "ranks": (
            Rank(0, step=120, metrics={"train/loss": 0.4, "acc": 0.9, "lr": 5.0, "odd": math.nan}),
            Rank(1, step=100, metrics={"train/loss": 0.6, "acc": 0.7}),
        ),
        "tags": ("ablation", "bf16"),
        "recipe": "ddp",
    }
    return Run(**(held | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kept",
    [
        *("", "   ", "resnet", "RESNET", '"resnet base"', "abla bf16", "failed", "ddp", "vision", "r-17"),
        *("-gpt", "-tag:paper", "-lr>1"),
        *("name:base", "tag:ablation", "tag:bf", "state:failed", "recipe:ddp", "project:vision", "id:17", 'name:"net b"'),
        *("/res.et/", "/^failed$/", r"/r-\d+/", "/t b/", "!gpt", "!tag:paper", "!/gpt|llama/", "!lr>1"),
        *("lr>1e-3", "lr = 0.01", "lr<=.01", "model=resnet18", "model!=gpt", "optimizer.momentum>=0.9", "seed=7", "seed>6"),
        *("loss<0.51", "loss>0.49", "train/loss<1", "acc>=.8", "odd=nan", "step=100", "ranks=2"),
        *("duration=1h", "duration>59m", "duration<2h", "age=2h", "resnet tag:ablation lr<1 !state:running"),
    ],
)
def test_a_term_keeps_the_run(kept: str) -> None:
    assert parse(kept).keeps(run_with(), NOW)


@pytest.mark.parametrize(
    "dropped",
    [
        *("gpt", "resnet gpt", "tag:paper", "state:running", "recipe:zero", "/^net/", "!resnet", "!tag:bf16"),
        *("-resnet", "-tag:bf16"),
        *("lr>1", "lr!=0.01", "model=gpt", "nothing>0", "nothing=1", "nothing!=1", "acc>0.85", "odd>0", "odd!=nan"),
        *("model>3", "duration>1h", "age<1h", "step>100"),
    ],
)
def test_a_term_drops_the_run(dropped: str) -> None:
    assert not parse(dropped).keeps(run_with(), NOW)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lr>", "lr> needs a value"),
        ("lr>big", "'big', which is not a number"),
        ("duration>soon", "needs a length of time"),
        ("stat:failed", "stat: is not a field; the fields are name, id, tag, state"),
        ("tag:", "tag: needs a text"),
        ("/res", "needs a second /"),
        ("/(/", "is not a regular expression"),
        ("<3", "<3 is not a term"),
        ('"open', "is not a term"),
        ("resnet ! x", "! is not a term"),
    ],
)
def test_a_wrong_filter_is_explained(text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert words in raised.value.message
    assert "lr>1e-3" in raised.value.hint


def test_what_is_not_known_is_neither_smaller_nor_larger() -> None:
    bare = Run("r", "bare")
    for text in ("duration>0s", "duration<9d", "age<9d", "step>=0", "step<9", "loss<9", "lr<9", "recipe:d", "tag:a"):
        assert not parse(text).keeps(bare, NOW), text
    assert parse("duration>1h").keeps(run_with(ended_at=None), NOW), "a run that goes on has lasted until now"


@settings(max_examples=examples(300))
@given(st.text(st.characters(codec="utf-8") | st.sampled_from(list("""<>=!:/"' \\()[]*+""")), max_size=40))
def test_any_text_is_accepted_or_refused_with_a_message(text: str) -> None:
    try:
        found = parse(text)
    except UsageError:
        return
    assert found.keeps(run_with(), NOW) in (True, False)


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(NUMBERS, NUMBERS)
def test_comparisons_are_those_of_numbers(held: float, wanted: float) -> None:
    run = run_with(config={"x": held})
    kept = {sign: parse(f"x{sign}{wanted!r}").keeps(run, NOW) for sign in ("<", "<=", "=", ">=", ">", "!=")}
    assert kept == {
        "<": held < wanted,
        "<=": held <= wanted,
        "=": held == wanted,
        ">=": held >= wanted,
        ">": held > wanted,
        "!=": held != wanted,
    }


WORDS = st.text(st.characters(codec="ascii", categories=("Ll", "Nd")), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["", *FIELDS]), WORDS), max_size=4))
def test_terms_join_with_and_and_negate(terms: list[tuple[bool, str, str]]) -> None:
    run = run_with()
    texts = [("!" if negated else "") + (f"{field}:{word}" if field else word) for negated, field, word in terms]
    assert parse(" ".join(texts)).keeps(run, NOW) == all(parse(text).keeps(run, NOW) for text in texts)
    for text in texts:
        assert parse(text).keeps(run, NOW) != parse("!" + text.lstrip("!") if text[0] != "!" else text[1:]).keeps(run, NOW)
