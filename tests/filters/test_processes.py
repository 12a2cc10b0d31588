"""Filters of processes: what each kind of term keeps, and that no text makes the parser fail but in words."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.errors import UsageError
from gputop.filters.processes import parse
from gputop.process import DeviceUse, Process
from gputop.snapshot import Device, Run
from tests.fuzzing import examples

NOW, ME, GIB = 10_000.0, 1000, 2**30


PROCESS = Process(
    4711,
    uid=ME,
    user="ada",
    name="python3",
    command=("/usr/bin/python", "-m", "train", "--lr", "0.1"),
    cpu_percent=99.0,
    memory_rss_bytes=3 * GIB,
    started_at=NOW - 7200,
    rank=2,
)
RUN, DEVICE = Run("r-17", "gpt-small"), Device(1, "GPU-ab12")
USE = DeviceUse("GPU-ab12", sm_utilization_percent=60.0)


@dataclass(frozen=True)
class Row:
    process: Process | None = PROCESS
    run: Run | None = RUN
    device: Device | None = DEVICE
    use: DeviceUse | None = USE
    memory_bytes: int | None = 12 * GIB


@pytest.mark.parametrize(
    "kept",
    [
        *("", "python", "TRAIN", "4711", "ada", "gpt", "train gpt", '"-m train"', "--lr", "/lr 0\\.\\d/", "-llama", "!llama"),
        *("gpu:0-3", "gpu:1", "gpu:0,1", "gpu:GPU-ab", "rank:2", "rank:0-7", "pid:4711", "user:me", "user:ad", "run:gpt"),
        *("run:r-17", "command:train", "mem>10G", "mem<=12GiB", "rss>2.5G", "sm>50", "sm>50%", "cpu<100", "rank>1"),
        *("time>1h", "time<3h", "-gpu:0", "-user:bob", "-mem>20G", "gpu:0-3 rank:2 user:me mem>10G sm>50 run:gpt python"),
    ],
)
def test_a_term_keeps_the_process(kept: str) -> None:
    assert parse(kept, ME).keeps(Row(), NOW)


@pytest.mark.parametrize(
    "dropped",
    [
        *(
            "llama",
            "train llama",
            "-python",
            "!gpt",
            "gpu:0",
            "gpu:2-7",
            "gpu:GPU-cd",
            "gpu:1:0",
            "rank:0",
            "rank:20",
            "pid:47",
        ),
        *("user:bob", "run:llama", "command:gpt", "mem>12G", "rss<1G", "sm>60", "cpu>=100", "rank<2", "time>3h", "-run:gpt"),
    ],
)
def test_a_term_drops_the_process(dropped: str) -> None:
    assert not parse(dropped, ME).keeps(Row(), NOW)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu:x", "gpu:x needs numbers, such as gpu:0"),
        ("gpu:1-", "needs numbers"),
        ("rank:two", "rank:two needs numbers"),
        ("gpus:1", "gpus: is not a field; the fields are gpu, rank, pid, user, run, command"),
        ("mem>10", "mem>10 needs a size, such as mem>400M"),
        ("mem>", "mem> needs a value"),
        ("memory>1G", "memory compares nothing that a process has; there are mem, rss, sm"),
        ("sm>half", "'half', which is not a number"),
        ("time>soon", "time>soon needs a length of time"),
        ("train -", "- is not a term"),
        ("/(/", "is not a regular expression"),
    ],
)
def test_a_wrong_filter_is_explained(text: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(text, ME)
    assert words in raised.value.message
    assert "gpu:0-3" in raised.value.hint


def test_what_is_not_known_is_neither_smaller_nor_larger() -> None:
    bare = Row(Process(1), None, None, None, None)
    for text in (
        "mem>0K",
        "mem<9G",
        "rss<9G",
        "sm>=0",
        "sm<9",
        "cpu<9",
        "rank<9",
        "rank:0",
        "time<9d",
        "user:me",
        "gpu:0",
        "run:g",
    ):
        assert not parse(text, ME).keeps(bare, NOW), text


def test_a_mig_instance_and_its_gpu() -> None:
    row = Row(device=Device(6, "MIG-1", kind="mig", mig_label="6:0 3g.40gb"))
    assert [parse(text, ME).keeps(row, NOW) for text in ("gpu:6", "gpu:6:0", "gpu:6:1", "gpu:mig-1")] == [
        True,
        True,
        False,
        True,
    ]


def test_memory_that_no_process_holds_has_a_gpu_and_a_size() -> None:
    row = Row(None, None, Device(0, "GPU-1"), None, GIB)
    assert all(parse(text, ME).keeps(row, NOW) for text in ("gpu:0", "mem>500M", "-python", '"no listed process"'))
    assert not any(parse(text, ME).keeps(row, NOW) for text in ("python", "user:me", "rank:0", "sm>0", "pid:0"))


@settings(max_examples=examples(300))
@given(st.text(st.characters(codec="utf-8") | st.sampled_from(list("""<>=!:/"' \\()[]*+-gpumem01""")), max_size=40))
def test_any_text_is_accepted_or_refused_with_a_message(text: str) -> None:
    try:
        found = parse(text, ME)
    except UsageError:
        return
    assert found.keeps(Row(), NOW) in (True, False)
    assert found.keeps(replace(Row(), process=None), NOW) in (True, False)
