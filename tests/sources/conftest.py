"""The processes that tests of the sources start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Start real processes, and end them after the test."""
    started = Processes(tmp_path)
    yield started
    started.end()
