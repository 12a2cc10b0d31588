"""Name causes: evidence in, findings out. No I/O, no clock, no NVML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputop.doctor.diagnosis import Doctor as Doctor


def __getattr__(name: str) -> Any:
    if name == "Doctor":
        from gputop.doctor.diagnosis import Doctor

        return Doctor
    raise AttributeError(name)
