"""What the dashboard and other screens ask of the app, as messages: they change nothing by themselves but how they look."""

from __future__ import annotations

from textual.message import Message

from gputop.process import ProcessQuestion
from gputop.tui.state.view import Settings


class ProcessChosen(Message):
    """The person wants the details of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid


class ProcessAsked(Message):
    """A screen asks about one process. The answer goes to the ``take_answer`` of the screen that is visible then."""

    def __init__(self, question: ProcessQuestion) -> None:
        super().__init__()
        self.question = question


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
