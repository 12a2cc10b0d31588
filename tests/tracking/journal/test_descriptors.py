"""gputop's descriptors in a process whose script closes descriptors that it does not know, and opens its own in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracking.kit import Home, home, read_all

assert home

DAEMON = """
import gc, os, sys, time, gputop
from gputop.tracking.journal import format as form
directory = sys.argv[1]
files = []
def closes_what_it_does_not_know():
    os.closerange(3, 1024)
    files.clear()
    for number in range(40):
        files.append(os.open(f"{directory}/checkpoint{len(os.listdir(directory))}", os.O_RDWR | os.O_CREAT))
        os.write(files[-1], b"x" * 100)
def as_it_was():
    for fd in files:
        assert os.fstat(fd).st_size == 100, "written to"
        assert os.pread(fd, 200, 0) == b"x" * 100
def flushed():
    words, end = run.journal.words, time.monotonic() + 30
    while words[form.W_FLUSHED] < words[form.W_HEAD]:
        assert time.monotonic() < end
        run._opened._wake_flusher()
        time.sleep(0.01)

run = gputop.init(name="daemon")
run.log(loss=0.0, step=0)
closes_what_it_does_not_know()
for step in range(1, 3000):
    run.log(loss=float(step), step=step)
if os.environ.get("GPUTOP_THREAD") != "0":
    flushed()
as_it_was()
closes_what_it_does_not_know()
run.log(loss=1.0, step=3000)
gputop.finish()
as_it_was()
del run
gputop.init(mode="disabled")
gc.collect()
as_it_was()

run = gputop.init(name="replaced")
run.log(loss=0.0)
closes_what_it_does_not_know()
archive = run._opened.archive_path
archive.rename(archive.with_suffix(".moved"))
archive.write_bytes(b"theirs")
for step in range(30_000):
    run.log(loss=float(step))
gputop.finish()
as_it_was()
assert archive.read_bytes() == b"theirs"
print("done")
"""


@pytest.mark.parametrize("thread", ["1", "0"], ids=["ring", "write-through"])
def test_a_script_that_closes_all_descriptors_keeps_its_own_files(home: Home, tmp_path: Path, thread: str) -> None:
    files = tmp_path / "files"
    files.mkdir()
    code, out, err = home.run(DAEMON, str(files), GPUTOP_THREAD=thread, GPUTOP_RUN_ID="daemon")
    assert (code, out) == (0, "done\n"), err
    assert err.count("gputop:") == err.count("\n") == 1
    assert "recording" in err
    assert "the training continues" in err
    seen = read_all(home.runs / "daemon" / "rank-00000.gpr").series["loss"]
    assert [step for step, _ in seen] == list(range(3001)), "the journal is opened again"


CLOSED = """
import os, sys, gputop
run = gputop.init()
for number in range(3):
    os.close(number)
out = [os.open(f"{sys.argv[1]}/{number}", os.O_RDWR | os.O_CREAT) for number in range(3)]
assert out == [0, 1, 2]
run.log(bad=[1, 2]); run.log(bad=object()); gputop.termwarn("careful"); run.log(loss=1.0)
os.closerange(0, 1024)
run.log(bad=(1, 2)); run.log(loss=1.0)
run.finish()
os._exit(0)
"""


def test_a_file_in_the_place_of_a_standard_stream_is_not_written_to(home: Home, tmp_path: Path) -> None:
    code, _, err = home.run(CLOSED, str(tmp_path))
    assert (code, err) == (0, "")
    assert [(tmp_path / str(number)).read_text() for number in range(3)] == ["", "", ""]
    assert len(read_all(home.archives()[0]).series["loss"]) == 2


WITHOUT = """
import os, sys
os.closerange(0, 3)
import gputop
run = gputop.init()
run.log(loss=1.0)
taken = [os.path.realpath(f"/proc/self/fd/{number}") for number in range(3) if os.path.exists(f"/proc/self/fd/{number}")]
with open(sys.argv[1], "w") as out:
    out.write(repr([path for path in taken if path.endswith(".gpr")]))
"""


def test_the_journal_takes_no_standard_descriptor(home: Home, tmp_path: Path) -> None:
    home.run(WITHOUT, str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "[]"
    assert read_all(home.archives()[0]).series["loss"] == [(0, 1.0)]
