"""The empty text is the id of no job. Its processes were once all processes: ``gputop stop ""`` ended them."""

from __future__ import annotations

from gputop.jobs import job_processes, store


def test_no_process_belongs_to_the_empty_id() -> None:
    assert job_processes.of_job("") == []
    assert job_processes.of_jobs(("", "x")) == {"": [], "x": []}
    assert not store.processes("")
