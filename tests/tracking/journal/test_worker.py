"""A thread of ours, where a signal handler of the script interrupts its start."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gputop.tracking.journal.worker import Worker


class TimeUp(BaseException):
    pass


def test_a_start_that_a_handler_interrupts_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = threading.Event()
    worker = Worker("gputop-test", ran.set)

    def interrupted(self: Any) -> None:
        raise TimeUp

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(TimeUp):
            worker.start()
    assert worker.join(0.0)
    worker.start()
    assert ran.wait(30)


def test_a_thread_that_never_started_is_not_waited_for() -> None:
    worker = Worker("gputop-test", lambda: None)
    worker._thread = threading.Thread()
    assert worker.join(0.0)
