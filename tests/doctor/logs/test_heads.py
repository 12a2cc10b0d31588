"""Errors on several lines: joined where a box, a terminal's width or the driver's form shows that they are one."""

from __future__ import annotations

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.meaning.explain import explain
from tests.doctor.logs.test_logs import scan

STEPS = "".join(f"step {step} loss {4 - step / 100}\n" for step in range(30))


def findings(text: str, size: int = 700) -> tuple[Finding, ...]:
    return explain([scan(text, size=size)]).findings


BOX = (
    "│ ❱ 412 │   │   self._batch_assertion()                             │\n"
    "╰────────────────────────────────────────────────────────────────────╯\n"
    "AssertionError: Check batch related parameters. train_batch_size is\n"
    "not equal to micro_batch_per_gpu * gradient_acc_step * world_size 128\n"
    "!= 16 * 2 * 2\n"
)
WHOLE = (
    "╭───────────────── Traceback (most recent call last) ────────────────╮\n"
    "│ /home/kim/train.py:12 in main                                     │\n"
)


@pytest.mark.parametrize("before", ["", STEPS, WHOLE, STEPS + WHOLE])
def test_rich_breaks_the_line_of_an_exception_at_its_box(before: str) -> None:
    for size in (1 << 20, 97) if before != STEPS else (1 << 20,):  # the box is searched in the same piece
        first = findings(before + BOX, size)[0]
        assert first.id == "ds_batch_sizes"
        assert "128 is not 16 × 2 × 2" in first.title


def test_a_line_that_would_have_fitted_is_another_one() -> None:
    for line in ("ok", "see the notes", "  indented " + "x" * 60, "x" * 90):
        log = f"{BOX.splitlines()[1]}\nLookupError: none of the shards is readable\n{line}\n"
        assert "readable." in findings(log)[0].cause.removesuffix(".") + "."
        assert "joined" not in findings(log)[0].cause


TWO = "Expected all tensors to be on the same device, but found at least two "
DEVICES = "devices, cuda:2 and cuda:3!"


def test_a_terminal_breaks_a_line_and_leaves_the_space() -> None:
    log = f"Stopped ({TWO}\n{DEVICES})\n"
    first = findings(log)[0]
    assert (first.id, first.title) == ("A13", "One operation got tensors on cuda:2 and on cuda:3")


def test_what_a_program_tries_and_goes_on_after_is_no_failure() -> None:
    tried = f"Failed ({TWO}\n{DEVICES})\n"
    log = f"* Trying dtype bfloat16\n{tried}* Trying dtype float16\n{tried}Ok\n* 28 layers\n* 4 kinds of blocks\n"
    assert [item.id for item in findings(log) if item.confidence != "possible"] == []


LOST = "[  911.1] NVRM: The NVIDIA GPU 0000:4f:00.0\n{0}NVRM: (PCI ID: 10de:2330) installed in this system has\n{0}NVRM: {1}\n"


@pytest.mark.parametrize("margin", ["", "             ", "[  911.1] "])
def test_the_driver_breaks_its_sentence_on_a_gpu_that_is_gone(margin: str) -> None:
    for size in (1 << 20, 31):
        log = LOST.format(margin, "fallen off the bus and is not responding to commands.")
        first = findings(f"{log}[  911.3] NVRM: The NVIDIA probe routine failed for 1 device(s).\n", size)[0]
        assert first.id == "I04"
        assert "GPU 0000:4f:00.0" in first.title
    assert findings(LOST.format(margin, "been set up and is ready.")) == ()
    other = "NVRM: The NVIDIA GPU 0000:4f:00.0 (PCI ID: 10de:1180)\nNVRM: installed in this system needs the 470 driver.\n"
    assert findings(other) == ()


def test_an_older_driver_breaks_it_elsewhere() -> None:
    log = (
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1e07) installed in this\n"
        "NVRM: system has fallen off the bus and is not responding to commands.\n"
    )
    assert "GPU 0000:01:00.0" in findings(log)[0].title
    alone = findings(log.splitlines()[1] + "\n")[0]
    assert (alone.id, alone.title) == ("I04", "The driver can no longer reach a GPU: it has fallen off the bus")


def test_lines_of_a_terminal_s_width_stay_apart_if_nothing_is_known_of_them() -> None:
    words = "the loader now reads the shards of the newest snapshot in the order of the "
    assert findings(f"{STEPS}{words}\nmanifest\n{STEPS}") == ()
    log = f"{STEPS}RuntimeError: the index of the shards that the loader reads is not complete \nmanifest-3\n"
    assert findings(log)[0].cause.endswith("reads is not complete.")
