"""Messages with which screens ask the app for something. A screen itself changes only its own appearance."""

from __future__ import annotations

from textual.message import Message

from gputop.questions import Question
from gputop.settings.values import Settings


class ProcessChosen(Message):
    """The user wants the details of a process."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid


class Asked(Message):
    """A screen asks the sampler. The answer goes to ``take_answer`` of whichever screen is visible when it arrives."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


class RunChosen(Message):
    """The user wants the dashboard to show this run from now on."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class RunOpened(Message):
    """The user wants to see this run's own screen."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self.run_id = run_id


class ProcessRunOpened(Message):
    """The user wants to see the own screen of an untracked run, by its ``ProcessRun.key``."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class GpuOpened(Message):
    """The user wants to see this GPU's own screen."""

    def __init__(self, uuid: str) -> None:
        super().__init__()
        self.uuid = uuid


class PcieWanted(Message):
    """A screen starts or stops showing PCIe throughput: measuring it may cost something."""

    def __init__(self, wanted: bool) -> None:
        super().__init__()
        self.wanted = wanted


class LayoutChanged(Message):
    """The user rearranged a screen; ``changes`` are fields of ``tui.state.layout.Layout``."""

    def __init__(self, **changes: str | bool) -> None:
        super().__init__()
        self.changes = changes


class SettingsChanged(Message):
    """The user changed a setting with a key."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings


class HostChosen(Message):
    """Another host is under the cursor of the hosts screen; None: the filter keeps none."""

    def __init__(self, host: str | None) -> None:
        super().__init__()
        self.host = host


class HostOpened(Message):
    """The user wants the dashboard of a host."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host
