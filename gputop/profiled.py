"""A profile of a few steps of a rank: the records of the answer, and their text. Pure.

``profiles`` fills them; the command and the screen show them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gputop import units
from gputop.terminal_text import columns
from gputop.wire import AnswerLine

ProfileState = Literal["refused", "offer", "done"]
STEPS = 3
"""How many steps a profile records unless another number is asked for."""
STEPS_MAX = 10
SHARES: Mapping[str, str] = {
    "data": "data",
    "python": "Python",
    "operators": "operators",
    "gpu": "waiting for the GPU",
    "peers": "waiting for peers",
}
"""Key of ``Profile.shares`` -> the words for it."""


@dataclass(frozen=True, slots=True)
class ProfileQuestion:
    """A screen's request for a profile of a run; ``go`` False asks only for its cost. ``rank`` None is the lowest rank."""

    run_id: str
    steps: int = STEPS
    go: bool = False
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Hot:
    """An operator or kernel that takes time: its own time, without that of what it calls, over all recorded steps."""

    name: str
    own_s: float
    calls: int
    line: str | None = None
    """The line of the script that most samples found meanwhile: "train.py:88 step"."""


@dataclass(frozen=True, slots=True)
class ScriptLine:
    """A line of the script, and how many samples of the recorded steps found it."""

    line: str
    """As in ``Hot``."""
    samples: int


@dataclass(frozen=True, slots=True)
class Profile(AnswerLine):
    """The answer to one question. Unknown values are None."""

    KEY = "profile"

    run_id: str
    name: str
    rank: int | None
    state: ProfileState
    why: str | None = None
    """Why it was refused."""
    hint: str | None = None
    step_s: float | None = None
    """The usual time of a step."""
    expected_s: float | None = None
    """What the recording is expected to add to the training's time."""
    steps: int | None = None
    """How many steps were recorded, or would be."""
    longest_s: float | None = None
    """The longest step while the profile was recorded and written."""
    extra_s: float | None = None
    """What the recording has added to the training's time, judging by its steps."""
    note: str | None = None
    recorded_s: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """Key of ``SHARES`` -> seconds of ``recorded_s``."""
    gpu_busy_s: float | None = None
    """How many seconds of ``recorded_s`` kernels or copies ran on the GPU; None if kernels were not recorded."""
    operators: tuple[Hot, ...] = ()
    kernels: tuple[Hot, ...] = ()
    samples: int = 0
    """How often the training's thread was sampled during the recorded steps."""
    script_lines: tuple[ScriptLine, ...] = ()
    """The lines that most samples found."""
    trace: str | None = None
    """The file with the trace for Perfetto."""


def refused(run_id: str, name: str, why: str, hint: str | None = None, rank: int | None = None) -> Profile:
    """Return an answer without a profile; ``why`` is a sentence."""
    return Profile(run_id, name, rank, "refused", why=why, hint=hint)


def offer_text(profile: Profile) -> str:
    """Return what the profile would cost, as a sentence."""
    steps = _steps(profile.steps)
    if profile.step_s is None or profile.expected_s is None:
        return f"What a profile of {steps} would cost is not known."
    times = profile.expected_s / profile.step_s if profile.step_s else 0.0
    return (
        f"A profile of {steps} costs the training about {time_text(profile.expected_s)}, {times:.0f} times a step's time. "
        f"It ends after a step that takes more than five times as long as usual."
    )


def cost_text(profile: Profile) -> str:
    """Return what the profile has cost, as a sentence."""
    if profile.step_s is None or profile.extra_s is None:
        return "What the profile has cost the training is not known."
    text = f"It has cost the training {time_text(profile.extra_s)}, {profile.extra_s / profile.step_s:.1f} times a step's time"
    if profile.longest_s is not None:
        text += (
            f"; the longest step took {time_text(profile.longest_s)}, {profile.longest_s / profile.step_s:.1f} times the usual"
        )
    return f"{text}."


def shares_of(profile: Profile) -> list[tuple[str, float, float]]:
    """Return where the time of a step went: (words, seconds in a step, share of it), the largest first."""
    if not profile.recorded_s or not profile.steps:
        return []
    found = [
        (SHARES[key], took / profile.steps, took / profile.recorded_s) for key, took in profile.shares.items() if key in SHARES
    ]
    return sorted(found, key=lambda item: -item[1])


def lines(profile: Profile) -> list[str]:
    """Return the profile as text."""
    where = f"{profile.name}  {profile.run_id}" + (f"  rank {profile.rank}" if profile.rank is not None else "")
    if profile.state == "refused":
        return [where, f"No profile. {profile.why or 'N/A'}", *([profile.hint] if profile.hint else [])]
    if profile.state == "offer":
        return [where, offer_text(profile)]
    shown = [where, f"{_steps(profile.steps)} recorded. {cost_text(profile)}"]
    shown += [f"Note: {profile.note}."] if profile.note else []
    shown += ["", "IN A STEP"]
    shown += _indented([(f"{share:.0%}", time_text(took), words) for words, took, share in shares_of(profile)])
    if profile.gpu_busy_s is not None and profile.recorded_s:
        shown += ["", f"The GPU was busy for {profile.gpu_busy_s / profile.recorded_s:.0%} of that time."]
    if profile.script_lines and profile.samples:
        shown += ["", f"LINES OF THE SCRIPT, BY {units.count(profile.samples)} SAMPLES"]
        shown += _indented(
            [(f"{found.samples / profile.samples:.0%}", found.line) for found in profile.script_lines], right=(0,)
        )
    for title, found in (("OPERATORS, BY THEIR OWN TIME", profile.operators), ("KERNELS", profile.kernels)):
        shown += ["", title, *_table(found)] if found else []
    return [*shown, "", f"Trace for ui.perfetto.dev: {profile.trace or 'N/A'}"]


def _table(found: Sequence[Hot]) -> list[str]:
    return _indented([(time_text(item.own_s), f"{item.calls}x", item.name, item.line or units.UNKNOWN) for item in found])


def _indented(rows: Sequence[Sequence[str]], right: Collection[int] = (0, 1)) -> list[str]:
    return [f"  {line}" for line in columns(rows, right)]


def _steps(count: int | None) -> str:
    return f"{units.count(count)} step" + ("" if count == 1 else "s")


def time_text(seconds: float) -> str:
    """Return a time as a profile shows it."""
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
