"""The empty text is the id of no job. Its processes were once all processes: ``gputop stop ""`` ended them."""

from __future__ import annotations

import pytest

from gputop.cli.main import main
from gputop.jobs import job_processes, store


def test_no_process_belongs_to_the_empty_id() -> None:
    assert job_processes.of_job("") == []
    assert job_processes.of_jobs(("", "x")) == {"": [], "x": []}
    assert not store.processes("")


def test_stop_with_an_empty_id_signals_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[object] = []
    monkeypatch.setattr(job_processes, "send", lambda members, number: sent.append((members, number)))
    assert main(["stop", ""]) == 2
    assert not sent
    assert "There is no job" in capsys.readouterr().err
