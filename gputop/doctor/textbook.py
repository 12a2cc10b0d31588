"""Render the known texts of logs: what ``gputop doctor --rules`` lists and explains of them, and their part of docs/rules.md.

A finding made from a text has the text's own id if no rule has its cause. Pure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gputop.doctor.logs.last_words import FINDING_ID
from gputop.doctor.logs.meaning.observed import UNKNOWN_ID
from gputop.doctor.logs.meaning.refuted import REFUTED_BY
from gputop.doctor.logs.patterns.pattern import FAILURE, HINT, Pattern
from gputop.doctor.logs.patterns.table import IDS, PATTERNS
from gputop.doctor.said_by import SAID_BY

WIDTH = 80
"""Characters of a line, as in ``rulebook``."""
_ID_CHARS = 25
"""Width of the column of ids: the longest id takes this much."""
HEAD = """\
<a id="texts"></a>
## What logs say

Each of these texts names a cause by itself. A finding made from one has the id of its rule, or of the text if there is no rule.
Words in capitals, such as NAME, stand for what the text says there.
"""


@dataclass(frozen=True, slots=True)
class Text:
    """What is known about the texts of one id. Each of ``meanings`` is a title, a mechanism and a fix."""

    id: str
    said_by: str
    keys: tuple[str, ...]
    """Words of which a matching line contains at least one."""
    meanings: tuple[tuple[str, str, str], ...]
    look_alikes: tuple[str, ...]
    causes: tuple[str, ...] = ()
    """The rules whose ids the findings have."""
    role: str = ""

    @property
    def titles(self) -> tuple[str, ...]:
        """What a finding may say, for the list."""
        return tuple(dict.fromkeys(title for title, _, _ in self.meanings))


class _Capitals(dict[str, str]):
    """Placeholders of a template, in capitals."""

    def __missing__(self, name: str) -> str:
        return name.upper()


_OTHERS = (
    Text(
        UNKNOWN_ID,
        "Python",
        ("Traceback (most recent call last):",),
        (
            (
                "The script failed with an exception that no known text explains",
                "The finding quotes the exception, what it was raised from, and the line of the script.",
                "# read the line that the finding names, and the traceback above the line that it quotes",
            ),
        ),
        ("The script continues after it, or ends with exit code 0: then it was caught.",),
    ),
    Text(
        FINDING_ID,
        "any program",
        ("Error", "error", "exit code", "a last line that is cut off"),
        (
            (
                "The log ends with an error that no known text explains",
                "Nothing but a few lines follows this line, and none says that the run continued.",
                "# read the line that the finding quotes, and those before it",
            ),
        ),
        ("The run ended with exit code 0, or continues: then it survived this line.",),
    ),
)


def _known(name: str) -> Text:
    rows = [row for row in PATTERNS if row.id == name]
    meanings: dict[tuple[str, str], str] = {}
    for row in rows:
        # Of rows that say the same, the last is the most general.
        meanings[_filled(row.title), _filled(row.means)] = _filled(row.fix)
    look_alikes = dict.fromkeys(_filled(row.refuted_by) or REFUTED_BY.get(row.id, "") for row in rows)
    return Text(
        name,
        SAID_BY[name],
        tuple(dict.fromkeys(row.key.strip() for row in rows)),
        tuple((*said, fix) for said, fix in meanings.items()),
        tuple(text for text in look_alikes if text),
        tuple(sorted({row.cause for row in rows if row.cause is not None})),
        _role(rows),
    )


def _filled(template: str) -> str:
    return template.replace("GPU {gpu}", "GPU {number}").format_map(_Capitals())


def _role(rows: Sequence[Pattern]) -> str:
    if all(row.cascade for row in rows):
        return "Follows from a failure elsewhere: another error, if the logs have one, is the cause."
    if all(row.kind == HINT for row in rows):
        return "Ends no run by itself."
    if all(row.kind != FAILURE for row in rows):
        return "Says why the command failed that an exception after it reports."
    return ""


TEXTS: dict[str, Text] = {text.id: text for text in (*map(_known, IDS), *_OTHERS)}
"""All texts of which findings may have the id."""
IDS_OF_RULE: dict[str, tuple[str, ...]] = {
    rule: tuple(text.id for text in TEXTS.values() if rule in text.causes)
    for rule in sorted({rule for text in TEXTS.values() for rule in text.causes})
}
"""The texts from which the findings of a rule are also made."""


def listing() -> str:
    """Return every text by the program that prints it, in lines of at most 80 characters: its id, and all that findings may
    say, with the rules in brackets whose ids these have.
    """
    return _listed(TEXTS.values())


def mentions(wanted: str) -> str:
    """Return the same of the texts in whose ids, titles or causes this occurs, in lower case; "" if there are none."""
    return _listed([text for text in TEXTS.values() if any(wanted in said.lower() for said in (text.id, *_said(text)))])


def _said(text: Text) -> Iterator[str]:
    for title, means, _ in text.meanings:
        yield from (title, means)


def _listed(wanted: Collection[Text]) -> str:
    lines: list[str] = []
    for who, texts in _by_program(wanted):
        lines += ["", who]
        for text in texts:
            first = f"  {text.id:<{_ID_CHARS}}"
            reported = f" [{', '.join(text.causes)}]" if text.causes else ""
            for title in text.titles:
                lines += textwrap.wrap(
                    title + reported, WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
                )
                first = " " * len(first)
    return "\n".join(lines)


def explanation(text: Text) -> str:
    """Return the full page of one text, in lines of at most 80 characters."""
    blocks = [f"{text.id}  A text in a log\n{'-' * (len(text.id) + 17)}"]
    for name, paragraphs in _paragraphs(text):
        lines = [line for paragraph in paragraphs for line in _wrapped(paragraph)]
        blocks.append("\n".join([name, *lines]))
    return "\n\n".join(blocks)


def markdown() -> str:
    """Return the part of docs/rules.md about texts."""
    parts = [HEAD]
    for who, texts in _by_program(TEXTS.values()):
        parts.append(f"### {who}\n")
        for text in texts:
            items = [f'<a id="{text.id}"></a>', f"#### {text.id}", ""]
            for name, paragraphs in _paragraphs(text):
                if name == "Printed by":
                    continue
                if name == "Fix":
                    items += [
                        "- **Fix.**",
                        "",
                        "  ```sh",
                        *(f"  {line}" for line in "\n".join(paragraphs).split("\n")),
                        "  ```",
                        "",
                    ]
                else:
                    items += _item(name, [part.replace("<", "&lt;").replace("*", r"\*") for part in paragraphs])
            parts.append("\n".join(items).rstrip() + "\n")
    return "\n".join(parts)


def _item(name: str, parts: Sequence[str]) -> list[str]:
    """Return a paragraph of the page, or the list of several."""
    lines = [("- ", "  ", f"**{name}.** {parts[0]}")] if len(parts) == 1 else [("- ", "  ", f"**{name}**")]
    lines += [("  - ", "    ", part) for part in parts] if len(parts) > 1 else []
    return [
        line
        for first, rest, text in lines
        for line in textwrap.wrap(
            text, 120, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
        )
    ]


def _by_program(wanted: Collection[Text]) -> Iterator[tuple[str, list[Text]]]:
    programs = dict.fromkeys((*SAID_BY.values(), *(text.said_by for text in _OTHERS)))
    for who in programs:
        texts = sorted((text for text in wanted if text.said_by == who), key=lambda text: text.id)
        if texts:
            yield who, texts


def _paragraphs(text: Text) -> Iterator[tuple[str, Iterable[str]]]:
    yield "Printed by", [text.said_by]
    quoted = [f'"{key}"' for key in text.keys]
    yield "Text", [f"A line that contains {' or '.join(quoted)}."]
    several = len(text.meanings) > 1
    yield "What it says", dict.fromkeys(_sentence(title) for title, _, _ in text.meanings)
    yield "Why it happens", dict.fromkeys(means for _, means, _ in text.meanings)
    if text.role:
        yield "Role", [text.role]
    fixes = dict.fromkeys(fix for _, _, fix in text.meanings)
    yield "Fix", (fixes if not several or len(fixes) == 1 else [f"# {title}\n{fix}" for title, _, fix in text.meanings])
    yield "Looks like", text.look_alikes
    if text.causes:
        yield "Reported as", [f"{', '.join(text.causes)}: gputop doctor --rules {text.causes[0]} explains the rule."]


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _wrapped(paragraph: str) -> list[str]:
    lines = []
    for line in paragraph.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(
            line.strip(),
            WIDTH,
            initial_indent=indent,
            subsequent_indent=f"{indent}  " if line.startswith("#") or "  #" in line else indent,
            break_on_hyphens=False,
            break_long_words=True,
        )
    return lines
