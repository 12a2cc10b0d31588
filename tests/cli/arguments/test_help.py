"""``--help`` of every command: it fits 80 columns, and shows at least one example that the command line accepts."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from gputop.cli.jobs import recipe_parser, recipe_values
from gputop.cli.main import main
from gputop.cli.parser import build_parser, parse_run
from gputop.errors import UsageError
from gputop.recipes.catalogue import RECIPES, find

COLUMNS = 80
EXAMPLE = re.compile(r"^  (gputop\b.*)$", re.MULTILINE)
ADD_ONE = "add an example in gputop/cli/arguments/"


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its commands, at any depth."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name in action.choices:
                yield from parsers(action.choices[name])


PARSERS = [*parsers(build_parser()), *map(recipe_parser, RECIPES)]


def examples(parser: argparse.ArgumentParser) -> list[str]:
    _, _, below = parser.format_help().partition("\nexample")
    return EXAMPLE.findall(below)


def parse(line: str) -> None:
    """Parse a line as the program does, which treats ``run`` and the options of a demo by themselves."""
    words = shlex.split(line)[1:]
    if words[:1] == ["run"]:
        options, command = parse_run(words[1:])
        assert options.command == "run"
        assert command, f"{line}: there is no command to run"
        return
    options = build_parser().parse_args(words)
    if options.command == "demo" and options.name:
        recipe_values(find(options.name), options.options)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_help_shows_an_example_that_parses(parser: argparse.ArgumentParser) -> None:
    found = examples(parser)
    assert found, f"{parser.prog} --help shows no example: {ADD_ONE}"
    for line in found:
        assert line.startswith(parser.prog), f"{line} is no example of {parser.prog}"
        try:
            parse(line)
        except UsageError as error:
            pytest.fail(f"{parser.prog} --help shows {line!r}, which is refused: {error}")


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_help_fits_80_columns_and_explains_each_argument(
    parser: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert max(map(len, parser.format_help().splitlines())) <= COLUMNS
    assert parser.description
    silent = [action.dest for action in parser._actions if not action.help and action.metavar != "COMMAND"]
    assert not silent, f"{parser.prog} --help does not explain {', '.join(silent)}"


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("demo", "ddp", "--help"), ("runs", "plot", "--help")])
def test_the_program_prints_it(words: tuple[str, ...]) -> None:
    printed = subprocess.run([sys.executable, "-m", "gputop", *words], capture_output=True, text=True, check=True).stdout
    assert EXAMPLE.search(printed.partition("\nexample")[2]), printed


def test_options_before_run_are_refused_with_a_message() -> None:
    done = subprocess.run([sys.executable, "-m", "gputop", "--readonly", "run"], capture_output=True, text=True)
    assert (done.returncode, "gputop run" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


@pytest.mark.parametrize("command", ["demo", "launch"])
def test_a_recipe_s_help_names_the_command_that_was_typed(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "faults/ranks-on-one-gpu", "--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: gputop {command} faults/ranks-on-one-gpu")
    assert f"gputop {command} faults/ranks-on-one-gpu --devices" in printed


@pytest.mark.parametrize("words", ["replay --theme light x.ndjson", "replay x.ndjson --theme=light", "doctor --ascii"])
def test_an_option_of_the_program_after_the_command_is_sent_before_it(words: str) -> None:
    """It was "Unrecognized arguments: --theme x.ndjson", of an option that the help lists."""
    flag = next(word for word in words.split() if word.startswith("--")).partition("=")[0]
    with pytest.raises(UsageError) as found:
        parse(f"gputop {words}")
    assert found.value.message == f"{flag} goes before the command."
    assert f"gputop {flag}" in found.value.hint


def test_an_option_that_nobody_knows_is_named() -> None:
    with pytest.raises(UsageError, match="Unrecognized arguments: --nope"):
        parse("gputop replay --nope x.ndjson")
