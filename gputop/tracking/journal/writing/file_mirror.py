"""Copies a journal's memory into a ring's file by writes, where a container forbids the call that copies through a mapping.

A write costs more, and needs a descriptor, which the script might have closed (``own_file``). But storing to the mapping itself
would end the training if the file were truncated.
"""

from __future__ import annotations

from gputop.tracking.journal import format as form
from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.writing.mapping import HEAD_OFFSET, Mirror
from gputop.tracking.journal.writing.own_file import OwnFile


class FileMirror(Mirror):
    """Copies a ring's memory to its file."""

    def __init__(self, memory: memoryview[int], file: OwnFile) -> None:
        """Copy all of ``memory`` to ``file``, which is as long."""
        self.end = 0
        self.failed, self.why = False, "was truncated"
        self._memory, self._file = memory, file
        self._capacity = len(memory) - form.RING_DATA_OFFSET
        self._copy(0, len(memory))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _copy_and_show(self, offset: int, size: int) -> None:
        self._copy(offset, size)
        self._copy(HEAD_OFFSET, 8)

    def _copy(self, offset: int, size: int) -> None:
        if self.failed:
            return
        try:
            if self._file.size() < len(self._memory):
                self.failed = True  # a write would give it a length again, and zeros for what is lost
            else:
                self._file.write(self._memory[offset : offset + size], offset)
        except OSError as error:
            let_through(error)
            self.failed, self.why = True, "can no longer be written"
