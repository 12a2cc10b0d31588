"""The names of keys are Unicode's, and others come from Unicode itself."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest

from gputop.startup.key_names import CHARACTERS, OTHER_KEYS, KeyNames

NAMES = KeyNames("unicodedata")


@pytest.mark.parametrize("character", [chr(code) for code in range(256)] + ["é", "漢", "🙂"])
def test_the_name_of_a_character_is_the_one_of_unicode(character: str) -> None:
    name = unicodedata.name(character, "")
    if not name:
        with pytest.raises(ValueError, match="no such name"):
            NAMES.name(character)
        return
    assert NAMES.name(character) == name
    assert NAMES.lookup(name) == character


@pytest.mark.parametrize("name", [*CHARACTERS, *sorted(OTHER_KEYS), "NO SUCH NAME"])
def test_a_name_is_looked_up_as_unicode_does(name: str) -> None:
    try:
        expected = unicodedata.lookup(name)
    except KeyError:
        with pytest.raises(KeyError):
            NAMES.lookup(name)
    else:
        assert NAMES.lookup(name) == expected


def test_what_the_stand_in_does_not_know_is_asked_of_the_module() -> None:
    assert NAMES.category("a") == "Ll"


def test_textual_names_the_keys_of_a_keyboard_without_the_tables() -> None:
    code = """
import sys
from gputop.startup.light_imports import for_textual
with for_textual():
    from textual.keys import _character_to_key, key_to_character
from textual.keys import Keys
keys = [_character_to_key(chr(code)) for code in range(32, 127)]
for key in keys:
    key_to_character(key)
for key in Keys:
    if key.value.replace("+", "").replace("_", "").isalnum():
        key_to_character(key.value)
from gputop.tui.drawing.line import clean
assert clean("a – b … ² é → █ \\n") == "a – b … ² é → █ ?"
assert "unicodedata" not in sys.modules
assert clean("e\\u0301\\u200b") == "e\\u0301?", clean("e\\u0301\\u200b")
assert "unicodedata" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
