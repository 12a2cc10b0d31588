"""Whether the modules that a run trains are called in training mode, or only in evaluation mode (``model.eval()``)."""

from __future__ import annotations


class Modes:
    """The modes of the calls with gradients, as counted between two looks."""

    def __init__(self) -> None:
        self._trains = self._evaluates = 0
        self._looked = 0
        self._since: int | None = None

    def called(self, trains: bool) -> None:
        """Count a call with gradients; ``trains``: in training mode."""
        if trains:
            self._trains += 1
        else:
            self._evaluates += 1

    def look(self, step: int) -> dict[str, int]:
        """Return what the fact ``model`` says after ``step``: since when all calls were in evaluation mode, if they are.

        A call in training mode since the last look, if only one, refutes it. Without a call, nothing changes.
        """
        if self._trains:
            self._since = None
        elif self._evaluates and self._since is None:
            self._since = self._looked
        self._trains = self._evaluates = 0
        self._looked = step
        return {} if self._since is None else {"evaluation_mode_from": self._since}
