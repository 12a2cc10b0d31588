"""The form of a recipe: a script that can be launched, and its options.

Imports only the standard library and gputop's errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gputop.errors import UsageError

YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Option:
    """One value that the user may set. ``kind`` is "int", "float", "choice" or "text".

    ``name`` names the field ("batch_size"); ``flag`` is the script's option. An option whose ``default`` is None is not
    passed. A ``switch`` is a choice between "no" and "yes" that the script takes as a bare flag ("--amp").
    """

    name: str
    label: str
    kind: str
    default: int | float | str | None
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    switch: bool = False

    @property
    def flag(self) -> str:
        """The script's option: "--batch-size"."""
        return "--" + self.name.replace("_", "-")

    def parse(self, value: object) -> str | None:
        """Return the value as text for the script; None for None or empty text, which keeps the script's default.

        Raises:
            UsageError: the value does not fit this option.
        """
        text = "" if value is None else str(value).strip()
        if not text:
            return None
        if self.kind == "choice" and text not in self.choices:
            raise UsageError(f"{self.label} cannot be {text!r}.", f"Choose one of: {', '.join(self.choices)}.")
        if self.kind in ("int", "float"):
            self._check_number(text)
        return text

    def arguments(self, text: str) -> tuple[str, ...]:
        """Return the command line arguments for a parsed value."""
        if self.switch:
            return (self.flag,) if text == YES else ()
        return (self.flag, text)

    def _check_number(self, text: str) -> None:
        try:
            number = int(text) if self.kind == "int" else float(text)
        except ValueError:
            kind = "a whole number" if self.kind == "int" else "a number"
            raise UsageError(
                f"{self.label} is {text!r}, which is not {kind}.", f"Write it like {self.default or 10}."
            ) from None
        # "not >=" instead of "<", so that "nan" is refused too.
        if self.minimum is not None and not number >= self.minimum:
            raise UsageError(f"{self.label} is {text}.", f"It must be at least {self.minimum:g}.")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A script that can be launched. ``script`` is relative to the demos' folder.

    ``launcher`` is "python" (one process), "torchrun" (one process per device, or ``processes`` of them) or "launch" (the
    same with torch.distributed.launch, the predecessor of torchrun). ``max_devices`` None means no limit.
    ``default_devices`` is how many devices a form preselects.
    """

    id: str
    title: str
    description: str
    teaches: str
    launcher: str
    script: str
    options: tuple[Option, ...]
    min_devices: int = 1
    max_devices: int | None = None
    default_devices: int = 2
    fault: str | None = None
    """The id of the rule that finds this recipe's mistake ("A07"); None for a healthy recipe."""
    one_machine: bool = False
    """Whether its devices must be in one machine: a rank's mistake is about the others that it sees."""
    processes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables to add to the environment; for some faults they are the mistake."""
    mask: str | None = None
    """Replaces the visibility mask that selects the chosen devices."""

    def min_devices_on_each(self, nodes: int) -> int:
        """Return how many devices each of ``nodes`` machines must have at least, if they start the recipe as one run."""
        return self.min_devices if self.one_machine else -(-self.min_devices // nodes)

    def defaults(self) -> dict[str, object]:
        """Return the default value of each option, by name."""
        return {option.name: option.default for option in self.options}


def with_defaults(options: tuple[Option, ...], **defaults: int | float | str | None) -> tuple[Option, ...]:
    """Return ``options`` with new default values.

    Raises:
        KeyError: there is no option of a given name.
    """
    unknown = set(defaults) - {option.name for option in options}
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    return tuple(replace(option, default=defaults.get(option.name, option.default)) for option in options)
