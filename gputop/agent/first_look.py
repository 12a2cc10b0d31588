"""The sampler's first line for a screen that starts: the GPUs as a few driver calls show them, before the first snapshot.

Taking a snapshot imports every reader; this line waits for none of them. It is written only on request (``gputop agent
--first-look``) and serves only the first picture. Imports nothing at the top: the sampler writes it before its own imports.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gputop.device import FirstLook

OPTION = "--first-look"
_BEGINNING = b'{"first_look":'
_PATIENCE_S = 0.25
"""If the driver takes longer, the sampler continues without a first look."""


def write_first_look() -> None:
    """Write the line to standard output, unless the driver is slow, hangs, or reports anything unusual."""
    import os
    import threading

    from gputop.sources.nvml.first_look import read_first_look

    done = threading.Event()
    writing = threading.Lock()
    late = False

    def look() -> None:
        try:
            found = read_first_look()
            with writing:
                if found is not None and not late:
                    os.write(1, _BEGINNING + _json(found).encode() + b"}\n")
        except OSError:
            pass  # the reader is gone: the sampler will notice too
        finally:
            done.set()

    # A driver that hangs must not delay the sampler, which reports the hang.
    threading.Thread(target=look, daemon=True, name="first-look").start()
    if not done.wait(_PATIENCE_S):
        with writing:
            late = True  # the output belongs to the sampler from here on


def _json(value: Any) -> str:
    """Return JSON; strings must be plain ASCII. Importing the module ``json`` would take longer than the whole first look."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(name)}:{_json(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(char if " " <= char <= "~" and char not in '"\\' else "?" for char in value) + '"'
    return "null" if value is None else repr(value).lower()


def first_look_in(line: bytes) -> FirstLook | None:
    """Return what a line with a first look contains; None for other lines.

    Raises:
        FormatError: this version does not write such a line.
    """
    if not line.startswith(_BEGINNING):
        return None
    import os
    import time

    from gputop.device import Device, FirstLook, Host
    from gputop.wire import FormatError, parse_json

    try:
        found = parse_json(line)["first_look"]
        devices = tuple(Device(**fields) for fields in found["devices"])
        host = Host(
            os.uname().nodename, source="nvml", simulated=found["simulated"] is True, driver_version=found["driver_version"]
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"a first look: {error}") from error
    return FirstLook(time.time(), host, devices)
