"""``gputop completion``: a script that lets a shell complete gputop's commands, options, recipes, runs and jobs.

The script is made from the parser of the command line, so it contains every command. For names that change, such as those of
runs and jobs, the shell asks ``gputop completion --names``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gputop.errors import EXIT_OK

_NAMED = {"run": "runs", "runs": "runs", "job": "jobs", "name": "recipes", "recipe": "recipes"}
"""An argument's name in the parser -> the kind of its values."""
NAMES_MAX = 200
"""Only the newest names are offered: a list of a thousand is useless."""
_INTERNAL = "internal"
"""How the help of an option begins that gputop passes to itself: nobody types it."""


@dataclass(slots=True)
class Command:
    """A command: its options and subcommands with their one-line help, and the kind of names that its arguments take."""

    options: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Option -> the words that it takes."""
    kind: str | None = None


def completion(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the script for a shell, or names; ``parser`` is the parser of the whole command line."""
    if options.names:
        for name in names(options.names):
            print(name)
        return EXIT_OK
    tree = dict(walk(parser))
    print({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](tree), end="")
    return EXIT_OK


def names(kind: str) -> list[str]:
    """Return the names that an argument of this kind can take now, newest first; only those that need no quotes."""
    if kind == "recipes":
        from gputop.recipes.catalogue import RECIPES

        found = [recipe.id for recipe in RECIPES]
    elif kind == "jobs":
        from gputop.jobs.store import list_jobs

        found = [job.id for job in list_jobs()]
    else:
        from gputop.tracking.reader.runs import RunReader

        runs = RunReader(backlog_points=None, recent_runs=NAMES_MAX).poll().runs
        found = [word for run in runs for word in (run.name, run.run_id)]
    return [word for word in dict.fromkeys(found) if re.fullmatch(r"[\w./:@%+=-]+", word)]


def walk(parser: argparse.ArgumentParser, path: str = "") -> Iterator[tuple[str, Command]]:
    """Yield ("", the program), and (path, command) of each command below it, such as "runs show"."""
    found = Command()
    below: list[tuple[str, argparse.ArgumentParser]] = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or (action.help or "").startswith(_INTERNAL):
            continue
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            found.commands = {name: _short(helps.get(name, "")) for name in action.choices}
            below += action.choices.items()
        elif action.option_strings:
            for flag in action.option_strings:
                found.options[flag] = _short(action.help or "")
                if action.choices:
                    found.values[flag] = tuple(map(str, action.choices))
        else:
            found.kind = found.kind or _NAMED.get(action.dest)
            if action.choices:
                found.values[""] = tuple(map(str, action.choices))
    yield path, found
    for name, child in below:
        yield from walk(child, f"{path} {name}".strip())


def _short(text: str) -> str:
    return text.replace("%%", "%")


def bash(tree: Mapping[str, Command]) -> str:
    """Return the script for bash."""
    lines = [
        "# gputop completion bash",
        "_gputop() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path="" i words=""',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case " ${path:+$path }${COMP_WORDS[i]} " in',
        *(f'            " {path} ") path="{path}" ;;' for path in tree if path),
        "        esac",
        "    done",
        '    [ "$path" = run ] && { COMPREPLY=($(compgen -c -f -- "$word")); return; }',
        '    case "$path $before" in',
    ]
    for path, command in tree.items():
        for flag, values in command.values.items():
            if flag:
                lines.append(
                    f"""        "{path} {flag}") COMPREPLY=($(compgen -W "{" ".join(values)}" -- "$word")); return ;;"""
                )
    lines += ["    esac", '    case "$path" in']
    for path, command in tree.items():
        words = " ".join((*command.commands, *command.values.get("", ()), *command.options))
        asked = f" $(gputop completion --names {command.kind} 2> /dev/null)" if command.kind else ""
        lines.append(f"""        "{path}") words="{words}{asked}" ;;""")
    lines += [
        "    esac",
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        '    [ -n "$COMPREPLY" ] || COMPREPLY=($(compgen -f -- "$word"))',
        "}",
        "complete -F _gputop gputop",
    ]
    return "\n".join(lines) + "\n"


def zsh(tree: Mapping[str, Command]) -> str:
    """Return the script for zsh, which runs bash's."""
    return f"autoload -U +X bashcompinit && bashcompinit\n{bash(tree)}"


def fish(tree: Mapping[str, Command]) -> str:
    """Return the script for fish."""
    lines = [
        "# gputop completion fish",
        "function __gputop_path",
        "    set -l path",
        "    for word in (commandline -opc)[2..-1]",
        '        switch (string join -- " " $path $word)',
        *(f'            case "{path}"\n                set path {path}' for path in tree if path),
        "        end",
        "    end",
        '    test "$path" = "$argv"',
        "end",
        "complete -c gputop -f -n '__gputop_path run' -a '(__fish_complete_subcommand --fcs-skip=2)'",
    ]
    for path, command in tree.items():
        start = f"complete -c gputop -n '__gputop_path {path}'"
        lines += [f"{start} -f -a {name} -d {_quoted(words)}" for name, words in command.commands.items()]
        if command.kind:
            lines.append(f"{start} -f -a '(gputop completion --names {command.kind} 2> /dev/null)'")
        if "" in command.values:
            lines.append(f"{start} -f -a '{' '.join(command.values[''])}'")
        for flag, words in command.options.items():
            name = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            takes = f" -x -a '{' '.join(command.values[flag])}'" if flag in command.values else ""
            lines.append(f"{start} {name}{takes} -d {_quoted(words)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
