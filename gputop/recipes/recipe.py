"""What a recipe is: something that can be launched, with the options that a person may choose.

Imports the standard library and gputop's errors alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gputop.errors import UsageError

YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class Option:
    """One value that a person may choose. ``kind`` is "int", "float", "choice" or "text".

    ``name`` is the word of the field ("batch_size"); the script's option is ``flag``. ``default`` None: not passed on.
    ``switch``: the choice is between "no" and "yes", and the script's option stands alone ("--amp") or not at all.
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
        """Return the value as the script's argument; None or an empty text leaves the script's own default.

        Raises:
            UsageError: the value is not of this option's kind.
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
        """Return a parsed value as it stands on the script's command line."""
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
        # Written so that "nan", which is less than nothing, is refused too.
        if self.minimum is not None and not number >= self.minimum:
            raise UsageError(f"{self.label} is {text}.", f"It has to be at least {self.minimum:g}.")


@dataclass(frozen=True, slots=True)
class Recipe:
    """Something that can be launched. ``script`` is below the demos' folder.

    ``launcher`` is "python" (one process), "torchrun" (one process for each device, or ``processes`` of them) or "launch"
    (the same by torch.distributed.launch, which torchrun replaced). ``max_devices`` None: as many as there are.
    ``default_devices`` is how many a form should choose at first.
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
    """The doctor's id of the mistake that this recipe makes ("A07"), None for a healthy one."""
    processes: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    """What is added to the environment: of some faults that is the mistake."""
    mask: str | None = None
    """A visibility mask in place of the one that shows the chosen devices."""

    def defaults(self) -> dict[str, object]:
        """Return the value of every option that a form starts with."""
        return {option.name: option.default for option in self.options}


def with_defaults(options: tuple[Option, ...], **defaults: int | float | str | None) -> tuple[Option, ...]:
    """Return ``options`` with other default values."""
    unknown = set(defaults) - {option.name for option in options}
    if unknown:
        raise KeyError(", ".join(sorted(unknown)))
    return tuple(replace(option, default=defaults.get(option.name, option.default)) for option in options)
