"""Texts that a language model has written, between two marks: "--- sample ---", and "--- end of sample ---" or "---". Pure.

They may quote any error, and say nothing about the run.
"""

from __future__ import annotations

import re

HELD_BYTES = 4096
"""At most this much is held back until the second mark comes."""
_BEGIN = (
    rb"^( {0,2}[-=*#~_<>]{2,80} ?(?:begin(?:ning)? of |start of )?(?:the |generated )?"
    rb"(sample|completion|generation|text|output)s?\b[^\n]{0,60}\n)"
)
_WORDS = (b"ample", b"SAMPLE", b"ompletion", b"enerat", b"text", b"utput")
_END_OF = rb"(?: {0,2}[-=*#~_<>]{2,80} ?end of (?:the |generated )?\2|(?:-{3,80}|={3,80})$)"
_BEGUN = re.compile(rb"%b(?!(?:[^\n]*\n)*?%b)" % (_BEGIN, _END_OF), re.MULTILINE | re.IGNORECASE)
_MARKED = re.compile(rb"%b((?:[^\n]{0,2000}\n){1,64}?)(?=%b)" % (_BEGIN, _END_OF), re.MULTILINE | re.IGNORECASE)


def without_samples(data: bytes) -> bytes:
    """Return complete lines of a log, with blank ones in place of those between two such marks."""
    if not any(word in data for word in _WORDS):
        return data
    return _MARKED.sub(lambda found: found[1] + b"\n" * found[3].count(b"\n"), data)


def begun_at(data: bytes) -> int:
    """Return where a text begins whose second mark is yet to come; the end of these complete lines if there is none."""
    near = data[-HELD_BYTES:]
    begun = _BEGUN.search(near)
    return len(data) if begun is None else len(data) - len(near) + begun.start()
