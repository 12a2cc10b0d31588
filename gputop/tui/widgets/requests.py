"""What the dashboard asks of the app, as messages: it changes nothing by itself but how it looks."""

from __future__ import annotations

from textual.message import Message

from gputop.tui.state.view import Settings


class ProcessChosen(Message):
    """The person wants the details of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid


class RunChosen(Message):
    """The person wants this run on the dashboard from now on."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class RunOpened(Message):
    """The person wants this run's own screen."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class SettingsChanged(Message):
    """The person changed a setting with a key."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
