"""Labels that the user gives a run from outside: another name, and tags added or removed. One small file next to its journals.

The journals stay as the training wrote them: it may be writing them now. Readers of the run apply the file. One that cannot be
read is named, and never replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gputop.errors import UsageError
from gputop.places import open_regular, replace_file
from gputop.wire import FormatError, parse_json

FILE = "labels.json"
FILE_BYTES = 64 << 10
"""A larger file is not gputop's."""
CHARACTERS = 200
"""The longest name or tag."""
TAGS = 100
"""The most tags that are added, or removed, from outside."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The contents of a file of labels; for what it leaves out, the script's own name and tags apply."""

    name: str | None = None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def tags(self, own: Sequence[str]) -> list[str]:
        """Return the tags of a run whose script gave it ``own``."""
        return list(dict.fromkeys(tag for tag in (*own, *self.added) if tag in self.added or tag not in self.removed))


NONE = Labels()


class UnreadableError(Exception):
    """A file of labels cannot be read. The message names the file and the reason."""


def read(directory: Path) -> Labels:
    """Return the labels in a run's directory; none if there is no file.

    Raises:
        UnreadableError: they cannot be read; writing them again would lose them.
    """
    path = directory / FILE
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                raise UnreadableError(f"{path}: it belongs to another user")
            content = file.read(FILE_BYTES + 1)
        if len(content) > FILE_BYTES:
            raise UnreadableError(f"{path}: it is too large")
        data = parse_json(content)
    except (FileNotFoundError, NotADirectoryError):
        return NONE
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror or error}") from error
    except FormatError as error:
        raise UnreadableError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise UnreadableError(f"{path}: it holds no labels")
    name, added, removed = data.get("name"), data.get("added") or [], data.get("removed") or []
    if not (name is None or _is_label(name)) or not _are_labels(added) or not _are_labels(removed):
        raise UnreadableError(f"{path}: its name or tags are no text")
    return Labels(name, tuple(added), tuple(removed))


def renamed(labels: Labels, name: str) -> Labels:
    """Return the labels with this name.

    Raises:
        UsageError: it is empty or too long.
    """
    return replace(labels, name=_checked(name, "name"))


def retagged(labels: Labels, tags: Collection[str], *, remove: bool) -> Labels:
    """Return the labels with these tags added or removed.

    Raises:
        UsageError: a tag is empty or too long, or there are too many.
    """
    given = dict.fromkeys(_checked(tag, "tag") for tag in tags)
    added = [tag for tag in labels.added if tag not in given]
    removed = [tag for tag in labels.removed if tag not in given]
    (removed if remove else added).extend(given)
    if max(len(added), len(removed)) > TAGS:
        raise UsageError("There are too many tags.", f"A run takes up to {TAGS}.")
    return replace(labels, added=tuple(added), removed=tuple(removed))


def write(directory: Path, labels: Labels) -> None:
    """Replace the labels in a run's directory as a whole, mode 0600.

    Raises:
        OSError: the disk is full, or the directory cannot be written.
    """
    replace_file(directory / FILE, json.dumps(asdict(labels)).encode())


def _checked(text: str, what: str) -> str:
    text = text.strip()
    if not text:
        raise UsageError(f"The {what} is empty.", f"Write a {what} of up to {CHARACTERS} characters.")
    if not _is_label(text):
        raise UsageError(f"The {what} is too long or not valid text.", f"Write a {what} of up to {CHARACTERS} characters.")
    return text


def _is_label(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= CHARACTERS and _is_utf8(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # an argument whose bytes are not valid text
        return False
    return True


def _are_labels(value: object) -> bool:
    return isinstance(value, list) and len(value) <= TAGS and all(map(_is_label, value))
