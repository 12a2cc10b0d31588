"""``-H``: one reading, a stream and a recording of other machines, over a real sshd or another command."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gputop.cli import hosts
from gputop.cli.across import doctor as across
from gputop.cli.main import main
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard
from gputop.network.records import NetworkPath
from gputop.process import WaitingLauncher
from gputop.sources.recording import read_recording
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.journal.writing.files import OpenJournal
from tests import samples
from tests.hosts.machines.sshd import DEADLINE_S, Lab, gputop_at_home, gputop_there, lab, needs_sshd
from tests.hosts.prometheus.test_prometheus import FakeServer, answer_queries
from tests.joined.test_untracked import node
from tests.tracking.kit import Home, home

assert home
assert lab

HERE = "env GPUTOP_TEST_HOST={host}"


def reach(via: str, state: Path) -> list[str]:
    return ["--via", via, "--remote", gputop_there(state), "--virtual", "1", "--no-nccl-ras", "-i", "200ms"]


@needs_sshd
def test_once_prints_each_host_then_the_runs(lab: Lab, home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    opened = OpenJournal(identity.identify(identity.Place(0, 0, 1, 0), "resnet18"), home.runs)
    opened.journal.log(step=7, loss=0.5)
    there = reach(lab.via, home.runs.parent)
    assert main(["--once", "-H", "a,b,refusing", *there]) == 1
    said = capsys.readouterr().out
    assert [line.split(" = ")[0] for line in said.splitlines() if ": virtual GPUs" in line] == ["a", "b"]
    assert "refusing: connection refused." in said
    runs = said[said.index("RUN ") :].splitlines()
    assert runs[0].split() == ["RUN", "STATE", "RANKS", "STEP", "LOSS", "HOST"]
    assert runs[1].split()[0] == "resnet18"
    assert runs[1].split()[2:-1] == ["1", "7", "0.5"]
    assert runs[1].split()[-1] in ("a", "b"), "both list it, and it runs on one machine: two names of it"
    assert sum(line.startswith("resnet18 ") for line in runs) == 1  # others may train on this machine

    assert main(["--once", "--json", "-H", "a,refusing", *there]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["host"], first["state"], first["message"]) == ("a", "live", None)
    assert first["snapshot"]["devices"][0]["kind"] == "virtual"
    assert isinstance(first["clock_offset_s"], float)
    assert (second["host"], second["state"], second["snapshot"]) == ("refusing", "refused", None)
    assert second["message"]
    assert second["hint"]


def test_a_stream_and_recordings_of_hosts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.hosts.stream.LATE_S", 60.0)  # a busy machine is no slow host
    there = reach(HERE, tmp_path / "there")
    hosts = tmp_path / "hosts"
    hosts.write_text("a  # the first\nb\n")
    assert main(["--stream", "-n", "6", "--hosts", str(hosts), *there]) in (0, 1)
    found: list[dict[str, Any]] = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert len(found) == 6
    assert {line["state"] for line in found} == {"live"}
    assert {line["host"] for line in found} <= {"a", "b"}

    record = ["record", str(tmp_path / "rec.ndjson"), "-H", "a,b", *there]
    recording = subprocess.Popen([sys.executable, "-m", "gputop", *record])
    files = [tmp_path / "rec.a.ndjson", tmp_path / "rec.b.ndjson"]
    deadline = time.monotonic() + DEADLINE_S
    while not all(file.exists() and file.read_bytes().count(b"\n") > 2 for file in files):
        assert time.monotonic() < deadline
        assert recording.poll() is None
        time.sleep(0.05)
    recording.send_signal(signal.SIGINT)
    assert recording.wait(DEADLINE_S) == 0
    assert all(len(list(read_recording(file))) > 1 for file in files)
    assert main(record) == 1
    assert "already exists" in capfd.readouterr().err


def test_the_runs_of_several_hosts_are_listed_and_shown_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for host, rank, run_id in (("a", 0, "over"), ("b", 1, "over"), ("b", 0, "solo")):
        world = 2 if run_id == "over" else 1
        opened = OpenJournal(identity.identify(identity.Place(rank, rank, world, 0), run_id), tmp_path / host / "runs")
        opened.journal.log(step=5 + rank, loss=1.0 + rank)
        opened.journal.state("fact", "notes", "kept")
        opened.finish(form.FINISHED, None)
    there = ["--via", f"env GPUTOP_DIR={shlex.quote(str(tmp_path))}/{{host}}", "--remote", gputop_at_home()]
    assert main(["runs", "-H", "a,b", *there]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["RUN", "NAME", "STATE", "RANKS", "STEP", "LOSS", "STARTED", "TAGS", "HOST"]
    listed = {row[0]: (row[2:6], row[9:]) for row in rows if row[0] in ("over", "solo")}
    assert listed == {"over": (["finished", "2", "5", "1.5"], ["a,", "b"]), "solo": (["finished", "1", "5", "1"], ["b"])}

    assert main(["runs", "--filter", "solo", "--json", "-H", "a,b", *there]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {host: [run["run_id"] for run in of["runs"]] for host, of in found.items()} == {"a": [], "b": ["solo"]}

    assert main(["runs", "show", "over", "-H", "a,b", *there]) == 0
    said = capsys.readouterr().out
    assert said.index("a:\n\n") < said.index("loss") < said.index("b:\n\n")
    assert main(["runs", "show", "solo", "--json", "-H", "a,b", *there]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["a"], shown["b"]["run_id"], shown["b"]["notes"]) == (None, "solo", "kept")
    assert main(["runs", "show", "none", "-H", "a,b", *there]) == 2
    assert "gputop runs -H lists them." in capsys.readouterr().err


def test_a_host_that_prometheus_also_reports_is_read_once_by_its_own_gputop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeServer(answer_queries)
    url = f"http://127.0.0.1:{server.port}"
    try:
        assert main(["--once", "--json", "-H", "me@node1.lab", "--prometheus", url, *reach(HERE, tmp_path / "there")]) == 1
    finally:
        server.close()
    found = {one["host"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {host: one["state"] for host, one in found.items()} == {"me@node1.lab": "live", "node2": "target_down"}
    assert found["me@node1.lab"]["snapshot"]["host"]["source"] == "virtual"

    for uuids, listed in ((("GPU-a", "GPU-b"), ["a", "node2"]), (("GPU-a",), ["a", "node1", "node2"])):
        told = tmp_path / "told"
        devices = tuple(replace(samples.device(index), uuid=uuid) for index, uuid in enumerate(uuids))
        told.write_text(replace(samples.snapshot(), devices=devices, processes=()).to_json() + "\n")
        server = FakeServer(answer_queries)
        there = ["--via", HERE, "--remote", f"cat {shlex.quote(str(told))} #"]
        try:
            main(["--once", "--json", "-H", "a", "--prometheus", f"http://127.0.0.1:{server.port}", *there])
        finally:
            server.close()
        assert [json.loads(line)["host"] for line in capsys.readouterr().out.splitlines()] == listed

    assert main(["--once", "--json", "-H", "a", "--prometheus", "http://127.0.0.1:1", *reach(HERE, tmp_path / "there")]) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["state"] == "live", "a server that does not answer takes nothing from the others"
    assert "Prometheus at http://127.0.0.1:1 refuses the connection." in said.err


def test_an_untracked_run_over_hosts_is_in_the_json_of_each(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for host, ranks in (("a", range(2)), ("b", range(2, 4))):
        told = replace(node(host, ranks, world_size=6).snapshot, interval_s=60.0)
        (tmp_path / host).write_text(told.to_json() + "\n")
    (tmp_path / "c").write_text(replace(samples.snapshot(), processes=(), runs=(), interval_s=60.0).to_json() + "\n")
    script = tmp_path / "gputop there"
    script.write_text(f'cat {shlex.quote(str(tmp_path))}/"$GPUTOP_TEST_HOST"; case $1 in agent) exec cat >/dev/null;; esac\n')
    there = ["--via", HERE, "--remote", f"sh {shlex.quote(str(script))}"]
    over = {
        "name": "train.py",
        "world_size": 6,
        "meets_at": "gpu1:29500",
        "hosts": [{"host": "a", "ranks": [0, 1], "current": True}, {"host": "b", "ranks": [2, 3], "current": True}],
        "missing_ranks": [4, 5],
    }
    main(["--once", "--json", "-H", "a,b,c", *there])
    found = {one["host"]: one["untracked_over_hosts"] for one in map(json.loads, capfd.readouterr().out.splitlines())}
    assert found == {"a": [over], "b": [over], "c": []}

    main(["--stream", "-n", "2", "-H", "a,b", *there])
    first, second = map(json.loads, capfd.readouterr().out.splitlines())
    assert (first["untracked_over_hosts"], second["untracked_over_hosts"]) == ([], [over]), "by what has arrived"

    monkeypatch.setattr(across._Watched, "settled", lambda self, lost: len(self.outcomes) == 2)
    main(["doctor", "--for", "60s", "--json", "-H", "a,b", *there])
    assert json.loads(capfd.readouterr().out)["untracked_runs"] == [over]


def test_a_torchrun_that_waits_for_another_node_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = WaitingLauncher(7, "train.py", 2, "gpu1:29500", "x", started_at=time.time() - 300)
    for host, launchers in (("a", (waits,)), ("b", ())):
        told = replace(
            node(host, range(0)).snapshot, process_runs=(), waiting_launchers=launchers, time=time.time(), interval_s=60.0
        )
        (tmp_path / host).write_text(told.to_json() + "\n")
    script = tmp_path / "there"
    script.write_text(f'cat {shlex.quote(str(tmp_path))}/"$GPUTOP_TEST_HOST"; case $1 in agent) exec cat >/dev/null;; esac\n')
    there = ["-H", "a,b", "--via", HERE, "--remote", f"sh {shlex.quote(str(script))}"]
    said = "for 1 of its 2 nodes at gpu1:29500; b runs none of it."
    main(["--once", *there])
    assert said in capfd.readouterr().out
    monkeypatch.setattr(across._Watched, "settled", lambda self, lost: len(self.outcomes) == 2)
    assert main(["doctor", "--for", "60s", *there]) == 1
    told = capfd.readouterr().out
    assert said in told
    assert told.count("has no rank") == 1, "the doctor of the host need not say it again"
    assert main(["doctor", "--for", "60s", "--json", *there]) == 1
    whole = json.loads(capfd.readouterr().out)
    assert "G06" not in json.dumps(whole["hosts"])
    (found,) = whole["waiting_for_nodes"]
    assert (found["name"], found["hosts"], found["missing_nodes"]) == ("train.py", ["a"], 1)


def test_the_doctor_says_which_names_are_one_machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = samples.snapshot()
    one = replace(told, host=replace(told.host, source="nvml", boot_id="b1"), interval_s=60.0)
    (tmp_path / "told").write_text(one.to_json() + "\n")
    there = ["--via", HERE, "--remote", f"cat {shlex.quote(str(tmp_path / 'told'))}; exec cat >/dev/null #"]
    monkeypatch.setattr(across._Watched, "settled", lambda self, lost: len(self.outcomes) == 2)
    main(["doctor", "--for", "60s", "--json", "-H", "a,b", *there])
    found = json.loads(capfd.readouterr().out)
    assert found["same_machine_as"] == {"b": "a"}
    assert list(found["hosts"]) == ["a", "b"]


def test_the_doctor_waits_for_the_network_of_a_run_that_is_not_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.doctor.watch.settled", lambda doctor, outcome: True)
    watched = across._Watched(["a", "b"])
    live = [HostStatus(host, "live") for host in "ab"]

    def take(*paths: NetworkPath) -> None:
        for status, ranks in zip(live, (range(2), range(2, 4)), strict=True):
            watched.take(Heard(status, replace(node(status.host, ranks).snapshot, paths=paths)), None)
        watched.join(None, live)

    take()
    assert not watched.settled(0)
    monkeypatch.setattr(across, "NETWORK_S", 0.0)
    assert watched.settled(0), "their kernels do not tell"
    take(NetworkPath("10.0.0.2", "10.0.0.1"))
    assert not watched.settled(0), "what they exchange is watched as long as a run that is tracked"
    monkeypatch.setattr(across, "OVER_S", 0.0)
    assert watched.settled(0)


def test_a_host_may_report_a_run_without_a_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "told"
    told.write_text(json.dumps({"hostname": "a", "time": 1.0, "not_tracked": [{"key": "x", "name": "train.py"}]}) + "\n")
    assert main(["runs", "-H", "a", "--via", HERE, "--remote", f"cat {shlex.quote(str(told))} #"]) == 0
    assert "PID N/A" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once", "--via", "ssh {host}"], "Name them with -H"),
        (["--once", "--remote", "gputop"], "Name them with -H"),
        (["-H", "a", "profile"], "only on this machine"),
        (["-H", "a", "runs", "rename", "x", "y"], "only on this machine"),
        (["runs", "-H", "a", "--filter", "/[/"], "regular expression"),
        (["--prometheus", "http://prom:9090", "jobs"], "cannot ask Prometheus"),
        (["--once", "--prometheus-auth", "x"], "Name the server with --prometheus URL."),
        (["--once", "-g", "0", "--prometheus", "http://prom:9090"], "Leave out -g."),
        (["--once", "--prometheus", "prom:9090"], "is not the URL of a server"),
        (["-H", "a", "demo", "ddp"], "Write gputop launch -H."),
        (["where", "--py-spy", "-H", "a"], "processes of this machine"),
        (["doctor", "--before", "-H", "a"], "reads other machines live"),
        (["--once", "-H=-oProxyCommand=x"], "cannot be the name of a host"),
        (["--once", "-H", "a", "--via", "ssh"], "does not say where the host goes"),
        (["--once", "-H", "a", "--remote", "a\nb"], "not a command in one line"),
        (["--once", "--hosts", "/nonexistent"], "cannot be read"),
    ],
)
def test_what_cannot_work_is_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) in (1, 2)
    assert said in capsys.readouterr().err


def test_the_doctor_reports_each_host_and_the_runs_over_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.doctor.watch.SETTLED_S", 0.5)
    monkeypatch.setattr("gputop.doctor.watch.IDLE_S", 0.5)
    monkeypatch.setattr("gputop.cli.across.doctor.LOST_AFTER_S", 0.0)
    reacher = tmp_path / "reach.py"
    reacher.write_text("import os, sys\nif sys.argv[1] == 'gone':\n    sys.exit('nobody')\nos.execvp('sh', ['sh'])\n")
    there = reach(f"{shlex.join([sys.executable, str(reacher)])} {{host}}", tmp_path / "there")
    assert main(["doctor", "--for", "30s", "-H", "a,gone", *there]) == 1
    said = capfd.readouterr().out
    assert "a:\n\n" in said
    assert "gone: failed. The connection ended: nobody." in said
    assert main(["doctor", "--for", "30s", "--json", "-H", "a,gone", *there]) == 1
    data = json.loads(capfd.readouterr().out)
    assert data["hosts"]["gone"] is None
    assert data["hosts"]["a"]["findings"] is not None
    assert data["runs_over_hosts"] is None


def test_each_host_has_a_file_of_its_own_whatever_its_name(tmp_path: Path) -> None:
    file = tmp_path / "rec.ndjson"
    assert hosts.paths_of(file, ["a/b"]) == {"a/b": file}
    long = "機" * 200
    found = hosts.paths_of(file, ["a/b", "a_b", "a_b-2", f"{long}1", f"{long}2"])
    assert [path.name for path in found.values()][:3] == ["rec.a_b.ndjson", "rec.a_b-2.ndjson", "rec.a_b-2-2.ndjson"]
    for path in found.values():
        path.touch(exist_ok=False)
