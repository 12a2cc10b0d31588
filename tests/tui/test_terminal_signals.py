from __future__ import annotations

import asyncio
import os
import signal

from gputop.tui.terminal_signals import answer_signals
from tests.patience import DEADLINE_S


def test_a_resize_is_answered_after_the_one_before_it_and_never_within() -> None:
    """A handler that the next signal interrupts posts its older size last."""
    posted: list[int] = []
    size = inside = 0

    def resized(number: int, frame: object) -> None:
        nonlocal size, inside
        assert not inside
        inside += 1
        read = size
        if size < 3:
            size += 1
            os.kill(os.getpid(), signal.SIGWINCH)  # the corner is dragged on, right between the two
        posted.append(read)
        inside -= 1

    async def drag() -> None:
        signal.signal(signal.SIGWINCH, resized)
        answer_signals(asyncio.get_running_loop())
        os.kill(os.getpid(), signal.SIGWINCH)
        while len(posted) < 4:
            await asyncio.sleep(0.01)

    before = {number: signal.getsignal(number) for number in (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)}
    try:
        asyncio.run(asyncio.wait_for(drag(), DEADLINE_S))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert posted == [0, 1, 2, 3]
