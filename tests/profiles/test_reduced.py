"""Where the time of recorded steps was spent: from events as Kineto writes them, and from damaged ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gputop.profiled import STEPS_MAX, Hot, Profile, ProfileQuestion, ScriptLine, cost_text, lines, offer_text, refused
from gputop.profiles import reduced
from gputop.profiles.trace import joined, parse
from gputop.questions import answer_in, command_of, is_answer, question_in
from gputop.tracking.profiling import exchange
from gputop.wire import FormatError

BASE_NS = 1_790_857_026_000_000_000


def event(category: str, name: str, begin_us: float, us: float, thread: int = 1, **args: int) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": thread, "ts": begin_us, "dur": us, "args": args}


def at(microseconds: float) -> int:
    return BASE_NS + int(microseconds * 1000)


STEP = [
    event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 100),
    event("cpu_op", "aten::stack", 10, 20),  # the loader's
    event("cpu_op", "aten::linear", 150, 100),
    event("cpu_op", "aten::addmm", 160, 80),
    event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 300, 50, thread=2),
    event("user_annotation", "gloo:all_reduce", 340, 100, thread=3),
    event("cpu_op", "c10d::allreduce_", 335, 5),
    event("cuda_runtime", "cudaLaunchKernel", 155, 4, correlation=9),
    event("kernel", "gemm", 400, 300, thread=77, correlation=9),
    event("cuda_runtime", "cudaDeviceSynchronize", 700, 100),
    event("user_annotation", "Optimizer.step#SGD.step", 900, 50),
    event("cpu_op", "aten::add_", 910, 30),
    event("cpu_op", "aten::late", 1500, 30),
]
WINDOWS = [(at(0), at(1000))]
SAMPLES = [(at(50), "train.py:3 <module>"), (at(170), "train.py:9 forward"), (at(330), "train.py:11 <module>")]


def trace(events: list[Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}).encode()


def test_each_time_counts_once() -> None:
    events = parse(trace(STEP)).events
    found = {kind: round(1e6 * took) for kind, took in reduced.shares(events, WINDOWS).items()}
    assert found == {"data": 100, "gpu": 100, "operators": 100 + 50 + 30, "peers": 90, "python": 530}
    assert sum(found.values()) == 1000
    assert reduced.shares([], []) == {}


def test_the_gpu_is_busy_with_kernels_and_copies_where_they_were_recorded() -> None:
    copies = [event("gpu_memcpy", "Memcpy HtoD", 650, 100), event("gpu_memset", "Memset", 990, 100)]
    busy = reduced.gpu_busy_s(parse(trace(STEP + copies)).events, WINDOWS)
    assert busy == pytest.approx(360e-6), "overlaps once, and only what lies in the window"
    no_kernels = [item for item in STEP + copies if item["cat"] != "kernel"]
    assert reduced.gpu_busy_s(parse(trace(no_kernels)).events, WINDOWS) is None
    profile = Profile("id", "name", 0, "done", recorded_s=1e-3, gpu_busy_s=busy, steps=1)
    assert "The GPU was busy for 36% of that time." in lines(profile)


def test_kernels_that_ran_after_the_recording_are_missed() -> None:
    assert not reduced.ran_later(parse(trace(STEP)).events)
    assert reduced.ran_later(parse(trace([item for item in STEP if item["cat"] != "kernel"])).events)
    assert not reduced.ran_later(parse(trace([item for item in STEP if item["cat"] == "cpu_op"])).events), "no GPU, no kernels"


def test_the_lines_that_most_samples_saw_come_first() -> None:
    late = [(at(1200), "train.py:20 evaluate")] * 3
    again = (at(600), "train.py:11 <module>")
    expected = [
        ScriptLine("train.py:11 <module>", 2),
        ScriptLine("train.py:3 <module>", 1),
        ScriptLine("train.py:9 forward", 1),
    ]
    assert reduced.script_lines([*SAMPLES, again, *late], WINDOWS) == (4, tuple(expected))
    assert reduced.script_lines([], WINDOWS) == (0, ())
    assert reduced.script_lines(SAMPLES, []) == (0, ())


def test_an_operator_has_its_own_time_and_the_line_that_ran() -> None:
    events = parse(trace(STEP)).events
    found = {hot.name: hot for hot in reduced.operators(events, WINDOWS, SAMPLES)}
    assert found["aten::addmm"] == Hot("aten::addmm", pytest.approx(80e-6), 1, "train.py:9 forward")
    assert found["aten::linear"].own_s == pytest.approx(20e-6)
    assert found["autograd::engine::evaluate_function: AddmmBackward0"].line == "train.py:11 <module>"
    assert found["aten::add_"].line is None, "no sample fell into it"
    assert "aten::late" not in found
    assert reduced.kernels(events, WINDOWS, SAMPLES) == (Hot("gemm", pytest.approx(300e-6), 1, "train.py:9 forward"),)


def test_damage_costs_its_own_event() -> None:
    good = event("cpu_op", "aten::add", 1, 2)
    bad = [
        None,
        3,
        {},
        {**good, "ts": "1"},
        {**good, "dur": None},
        {**good, "ts": float("nan")},
        {**good, "name": 5},
        {**good, "dur": -1},
    ]
    assert [found.name for found in parse(trace([*bad, good])).events] == ["aten::add"]
    for text in (b"", b"[]", b"{}", b'{"traceEvents": 3}', b"[" * 100_000):
        with pytest.raises(ValueError, match=r"no list|Expecting|too deep|recursion|no trace|line 1"):
            parse(text)


def test_steps_become_one_trace_whose_arrows_stay_apart() -> None:
    arrow = {"ph": "s", "id": 1, "cat": "fwdbwd", "name": "fwdbwd", "ts": 1, "pid": 7, "tid": 1}
    whole = joined([parse(trace([arrow])), parse(trace([arrow, *STEP]))])
    assert len({item["id"] for item in whole["traceEvents"] if "id" in item}) == 2
    assert (whole["baseTimeNanoseconds"], len(whole["traceEvents"])) == (BASE_NS, 2 + len(STEP))


def test_question_and_answer_travel() -> None:
    question = ProfileQuestion("run", 2, go=True, rank=1)
    assert question_in(command_of(question)) == question
    answer = Profile("r", "n", 0, "done", shares={"data": 1.0}, operators=(Hot("a", 1.0, 2, "x"),), trace="/t")
    line = answer.to_json().encode()
    assert is_answer(line)
    assert answer_in(line) == answer
    with pytest.raises(FormatError):
        Profile.from_json('{"profile": {"run_id": 3}}')
    assert STEPS_MAX == exchange.STEPS_MAX


def test_the_report_in_words() -> None:
    offer = Profile("r", "gpt", 0, "offer", steps=3, step_s=0.1, expected_s=0.6)
    assert offer_text(offer) == (
        "A profile of 3 steps costs the training about 600.0 ms, 6 times a step's time. "
        "It ends after a step that takes more than five times as long as usual."
    )
    assert lines(refused("r", "gpt", "It hangs.", "Ask later.")) == ["gpt  r", "No profile. It hangs.", "Ask later."]
    done = Profile(
        "r",
        "gpt",
        0,
        "done",
        steps=2,
        step_s=0.1,
        extra_s=0.25,
        longest_s=0.3,
        recorded_s=0.2,
        shares={"data": 0.05, "python": 0.15},
        samples=40,
        script_lines=(ScriptLine("train.py:12 <module>", 30),),
        operators=(Hot("aten::mm", 0.02, 8, "train.py:9 forward"), Hot("aten::t", 0.01, 8)),
    )
    assert cost_text(done) == (
        "It has cost the training 250.0 ms, 2.5 times a step's time; the longest step took 300.0 ms, 3.0 times the usual."
    )
    assert lines(done)[2:] == [
        "",
        "IN A STEP",
        "  75%  75.0 ms  Python",
        "  25%  25.0 ms  data",
        "",
        "LINES OF THE SCRIPT, BY 40 SAMPLES",
        "  75%  train.py:12 <module>",
        "",
        "OPERATORS, BY THEIR OWN TIME",
        "  20.0 ms  8x  aten::mm  train.py:9 forward",
        "  10.0 ms  8x  aten::t   N/A",
        "",
        "Trace for ui.perfetto.dev: N/A",
    ]
    assert cost_text(Profile("r", "n", 0, "done")) == "What the profile has cost the training is not known."
