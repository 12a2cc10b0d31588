"""What another machine sends is typed, bounded and cannot steer a terminal, whatever it holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gputop.hosts import checked
from gputop.hosts.checked import answer_of, snapshot_in
from gputop.network.records import Interface, NetworkPath
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.run_questions import RunsAnswer, RunsQuestion
from gputop.snapshot import Points, Snapshot
from gputop.wire import LEVELS_MAX, FormatError, parse_json
from tests import samples

EVIL = "evil\x1b]0;title\x07\x1b[2J\x9b31m\x7f\u202etxt"


def plain(**changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(samples.snapshot().to_json())
    return found | changes


def line(data: Any) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def test_an_honest_line_stays_as_it_is() -> None:
    snapshot = samples.snapshot()
    assert snapshot_in(snapshot.to_json().encode()) == snapshot == snapshot_in(snapshot.to_json(compact=True).encode())


@pytest.mark.parametrize("escaped", [False, True])
def test_no_text_can_steer_a_terminal(escaped: bool) -> None:
    data = plain()
    data["host"]["hostname"] = EVIL
    data["runs"][0]["config"] = {EVIL: [{"deep": EVIL}]}
    snapshot = snapshot_in(json.dumps(data).encode() if escaped else json.dumps(data, ensure_ascii=False).encode())
    assert snapshot.host.hostname == "evil31mtxt"
    assert snapshot.runs[0].config == {"evil31mtxt": [{"deep": "evil31mtxt"}]}


@pytest.mark.parametrize(
    "sent",
    [
        *(b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"sequence": 1}', b"Welcome to node1!"),
        line(plain(time="NaN")),
        line(plain(interval_s="Infinity")),
        line(plain(schema_version="1")),
        line(plain(sequence=10**400)),
        line(plain(devices={"a": 1})),
        line(plain(host=[])),
        line(plain(processes=[{"pid": 10**4000}])),
    ],
    ids=range(15),
)
def test_a_line_that_holds_no_snapshot_is_an_error(sent: bytes) -> None:
    with pytest.raises(FormatError):
        snapshot_in(sent)


def test_a_line_of_millions_of_records_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "parse_json", None)
    with pytest.raises(FormatError, match="more records"):
        snapshot_in(b'{"unknown":[' + b"[]," * 3_000_000 + b"[]]}")


@pytest.mark.parametrize("around", ["{}", '["]{{ }}",{},"[","[]]"]', '["\\\\\\"",{},"]"]', '["é",{}]', '{{"}}[":{}}}'])
@pytest.mark.parametrize(("levels", "is_deep"), [(LEVELS_MAX - 2, False), (LEVELS_MAX + 1, True)])
def test_how_deep_a_line_is_does_not_depend_on_the_brackets_in_its_texts(around: str, levels: int, is_deep: bool) -> None:
    nested = around.format("[" * levels + "1" + ",[1]" * 200 + "]" * levels)
    for encoding in ("utf-8", "utf-16"):
        sent = nested.encode(encoding)
        if is_deep:
            with pytest.raises(FormatError, match="too deeply"):
                parse_json(sent)
        else:
            assert parse_json(sent) == json.loads(nested)


def test_a_line_hides_no_depth_behind_brackets_in_its_texts() -> None:
    with pytest.raises(FormatError, match="too deeply"):
        parse_json(b'["]",' * 150 + b"1" + b"]" * 150)
    with pytest.raises(FormatError, match="too deeply"):
        parse_json('["\u2200\u5d00",'.encode("utf-16-be") * 150 + "1".encode("utf-16-be") + "]".encode("utf-16-be") * 150)


@pytest.mark.parametrize("number", [str(checked.INTEGER_MAX + 1), "9" * 20, "-" + "12" * 15])
def test_a_number_without_bounds_is_refused(number: str) -> None:
    sent = json.dumps(plain()).replace('"sequence": 0', f'"sequence": {number}')
    assert number in sent
    with pytest.raises(FormatError):
        snapshot_in(sent.encode())


def test_a_newer_stream_is_recognized() -> None:
    with pytest.raises(checked.NewerStreamError):
        snapshot_in(line(plain(schema_version=99)))


def test_numbers_are_bounded_and_the_omitted_ones_counted() -> None:
    snapshot = samples.snapshot()
    many = replace(
        snapshot,
        devices=snapshot.devices[:1] * 2000,
        runs=(replace(snapshot.runs[0], ranks=snapshot.runs[0].ranks[:1] * 5000),),
    )
    found = snapshot_in(many.to_json().encode())
    assert len(found.devices) == checked.MOST["devices"]
    assert len(found.runs[0].ranks) == checked.RANKS_MOST
    assert "512 of 2000 devices" in found.notes[-1].message


@pytest.mark.parametrize("name", ["devices", "runs"])
def test_records_beyond_the_limit_are_not_even_decoded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checked.MOST, name, 1)
    data = plain()
    data[name] = [data[name][0], "no record at all", {"deep": []}]
    found = snapshot_in(line(data))
    assert len(getattr(found, name)) == 1
    assert f"1 of 3 {name}" in found.notes[-1].message
    for broken in (["no record"], [{"ranks": 7}], {"a": 1}, "x", 7, None):
        with pytest.raises(FormatError):
            snapshot_in(line(plain(runs=broken)))


@pytest.mark.parametrize("interval_s", [0.0, -5.0, 1e300])
def test_an_interval_is_one_that_can_be_waited_for(interval_s: float) -> None:
    assert 0.1 <= snapshot_in(line(plain(interval_s=interval_s))).interval_s <= 3600


def test_the_name_of_an_interface_is_one_word() -> None:
    evil, plain_names = "$(touch here); 'x", ("eth0", "bond0.100", "eth0:1", "mlx5_0/1", "veth1@if2")
    sent = replace(
        samples.snapshot(),
        interfaces=tuple(map(Interface, (evil, "-s", *plain_names))),
        paths=(NetworkPath("10.0.0.1", "10.0.0.2", interface=evil), NetworkPath("10.0.0.1", "10.0.0.2")),
    )
    found = snapshot_in(sent.to_json().encode())
    assert [item.name for item in found.interfaces] == ["__touch_here____x", "_s", *plain_names]
    assert [path.interface for path in found.paths] == ["__touch_here____x", None]


def test_points_with_uneven_columns_are_left_out() -> None:
    whole, uneven = Points("r", 0, "loss", (1,), (2.0,), (3.0,)), Points("r", 0, "loss", (1, 2), (2.0,), (3.0,))
    snapshot: Snapshot = replace(samples.snapshot(), points=(uneven, whole))
    assert snapshot_in(snapshot.to_json().encode()).points == (whole,)
    answer = RunsAnswer(RunsQuestion(("r",)), points=(uneven, whole))
    found = answer_of(answer.to_json().encode())
    assert isinstance(found, RunsAnswer)
    assert found.points == (whole,)


def test_an_answer_is_checked_too() -> None:
    answer = ProcessAnswer(ProcessQuestion(7, True), environment={"A": EVIL})
    found = answer_of(answer.to_json().encode())
    assert isinstance(found, ProcessAnswer)
    assert found.environment == {"A": "evil31mtxt"}
    assert answer_of(samples.snapshot().to_json().encode()) is None
    with pytest.raises(FormatError):
        answer_of(b'{"process_answer":' + b"[" * 500 + b"]" * 500 + b"}")
