"""Finds machines that are named twice, such as by an alias and an address. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gputop.joined.runs import Seen

Key = tuple[str, str, str, frozenset[str]]


def named_twice(seen: Iterable[Seen]) -> dict[str, str]:
    """Return each host whose machine is already listed under another name, with that name.

    They are one machine if boot id, hostname and GPUs are the same: pods on one machine have other hostnames, and mostly other
    GPUs. Virtual GPUs are the same everywhere, and prove nothing. The name whose link is up counts; of several, the first. With
    another user before the @, a host is another view of the machine, with other runs.
    """
    first: dict[Key, str] = {}
    twice: dict[str, str] = {}
    for one in sorted(seen, key=lambda one: not one.current):
        key = _key(one)
        if key is not None:
            name = first.setdefault(key, one.host)
            if name != one.host:
                twice[one.host] = name
    return twice


def once_each(seen: Sequence[Seen]) -> tuple[Seen, ...]:
    """Return the snapshots with each machine once."""
    twice = named_twice(seen)
    return tuple(one for one in seen if one.host not in twice)


def same_machine(name: str) -> str:
    """Return the words for a host whose machine is already shown under the name ``name``."""
    return f"the same machine as {name}, which is shown"


def _key(one: Seen) -> Key | None:
    host = one.snapshot.host
    uuids = frozenset(device.uuid for device in one.snapshot.devices)
    if host.source != "nvml" or host.boot_id is None or not uuids:
        return None
    return one.host.rpartition("@")[0], host.boot_id, host.hostname, uuids
