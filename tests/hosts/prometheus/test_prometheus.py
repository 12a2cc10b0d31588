"""Hosts that a Prometheus server knows: exporters' names, ages, dead targets, and servers that are not to be trusted."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

import pytest

from gputop.cli.across import doctor as across
from gputop.cli.main import main
from gputop.device import Device
from gputop.doctor.diagnosis import Doctor
from gputop.errors import GputopError
from gputop.hosts.following import Links
from gputop.hosts.prometheus import client as client_module
from gputop.hosts.prometheus import watch as watch_module
from gputop.hosts.prometheus.client import Client, QueryError, Series, Server, server_of
from gputop.hosts.prometheus.names import HOST_LABELS, SAMPLED
from gputop.hosts.prometheus.reading import HostReading, hosts_in
from gputop.hosts.prometheus.watch import PrometheusHost, Reader, Watch
from gputop.hosts.state import Failure
from gputop.hosts.stream import Heard
from gputop.sources.recording import read_recording
from tests import REPOSITORY
from tests.patience import DEADLINE_S
from tests.terminal import Terminal
from tests.tracking.kit import eventually

NOW = 1_800_000_000.0

DCGM = """
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1",DCGM_FI_DRIVER_VERSION="550.90"} 97
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 1000
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 80000
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 500
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 0.25
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 5000
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 140737488355328
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 9223372036854775794
DCGM_FI_DEV_FAN_SPEED{gpu="0",UUID="GPU-a",modelName="NVIDIA H100",Hostname="node1"} 2147483632
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",GPU_I_ID="3",GPU_I_PROFILE="1g.10gb",Hostname="node1"} 5
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1",UUID="GPU-b",modelName="NVIDIA H100",hostname="node1"} 0.5
"""
NVITOP = """
gpu_utilization_Percentage{hostname="10.0.0.7",index="0",devicename="NVIDIA A100",uuid="GPU-a"} 40
gpu_memory_used_MiB{hostname="10.0.0.7",index="0",devicename="NVIDIA A100",uuid="GPU-a"} 2
gpu_memory_total_MiB{hostname="10.0.0.7",index="0",devicename="NVIDIA A100",uuid="GPU-a"} 40960
gpu_power_usage_W{hostname="10.0.0.7",index="0",devicename="NVIDIA A100",uuid="GPU-a"} NaN
gpu_pcie_rx_throughput_MiBps{hostname="10.0.0.7",index="0",devicename="NVIDIA A100",uuid="GPU-a"} 3
host_cpu_percent_Percentage{hostname="10.0.0.7"} 12.5
host_virtual_memory_total_MiB{hostname="10.0.0.7"} 1024
host_load_average_1m_Percentage{hostname="10.0.0.7"} 3.5
"""
NVIDIA_SMI = """
nvidia_smi_utilization_gpu_ratio{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 0.42
nvidia_smi_memory_used_bytes{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 1048576
nvidia_smi_clocks_current_sm_clock_hz{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 1.98e9
nvidia_smi_pstate{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 2
nvidia_smi_index{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"} 3
nvidia_smi_gpu_info{uuid="df6e7a7c-7314-46f8-abc4-b88b36dcf3aa",name="RTX 2080",driver_version="471.11"} 1
"""
ALL_SMI = """
all_smi_gpu_utilization{gpu="NVIDIA H200",exported_instance="node-0058",uuid="GPU-12345",index="0"} 25.5
all_smi_gpu_memory_used_bytes{gpu="NVIDIA H200",exported_instance="node-0058",uuid="GPU-12345",index="0"} 8589934592
all_smi_gpu_utilization{gpu="NVIDIA H200",exported_instance="node-0058",gpu_uuid="GPU-2",gpu_index="1"} 1
"""
Answer: TypeAlias = Callable[[socket.socket, bytes], object]
"""What a server does with a connection and its first request."""
_LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")


def series(text: str, job: str, instance: str) -> list[Series]:
    """What Prometheus answers after it scraped ``text``: with labels of its own, and the time of the query."""
    found = [match for line in text.strip().splitlines() if (match := _LINE.fullmatch(line))]
    target = {"job": job, "instance": instance}
    return [
        Series({"__name__": name, **dict(re.findall(r'(\w+)="([^"]*)"', labels)), **target}, (NOW, value))
        for name, labels, value in (match.groups() for match in found)
    ]


def read(text: str, instance: str, *, age_s: float = 3.0, ups: str = "11", interval_s: float = 15.0) -> dict[str, HostReading]:
    """What is read where one target, ``ups`` of whose last scrapes succeeded, tells ``text``."""
    values = series(text, "gpus", instance)
    target = {"job": "gpus", "instance": instance}
    points = tuple((NOW - interval_s * (len(ups) - place), up) for place, up in enumerate(ups))
    hosts = [{name: text for name, text in one.metric.items() if name in ("job", *HOST_LABELS)} for one in values]
    sampled = [Series(labels, (NOW, str(NOW - age_s))) for labels in hosts] if age_s >= 0 else []
    return hosts_in(values, sampled, [Series({"__name__": "up", **target}, values=points)], values)


def the_only(found: dict[str, HostReading], host: str) -> HostReading:
    assert list(found) == [host]
    assert found[host].state == "live"
    return found[host]


def test_what_each_exporter_says_of_a_gpu() -> None:
    dcgm = the_only(read(DCGM, "node1:9400"), "node1")
    first, second = dcgm.devices
    assert first == Device(
        *(0, "GPU-a", "NVIDIA H100"),
        utilization_percent=97.0,
        memory_used_bytes=1000 << 20,
        memory_total_bytes=81500 << 20,
        memory_reserved_bytes=500 << 20,
        sm_activity_percent=25.0,
        energy_j=5.0,
    ), "DCGM's numbers for what it does not know are no readings, and those of a MIG instance not the GPU's"
    assert (second.utilization_percent, second.memory_total_bytes) == (50.0, None)
    assert dcgm.host is not None
    assert (dcgm.host.source, dcgm.host.driver_version, dcgm.age_s, dcgm.interval_s) == ("prometheus", "550.90", 3.0, 15.0)

    nvitop = the_only(read(NVITOP, "gpu7:8000"), "gpu7")
    (device,) = nvitop.devices
    assert (device.utilization_percent, device.power_w, device.pcie_rx_bytes_per_s) == (40.0, None, 3 << 20)
    assert (device.memory_used_bytes, device.memory_total_bytes) == (2 << 20, 40960 << 20)
    assert nvitop.host is not None
    assert (nvitop.host.cpu_percent, nvitop.host.load_1m, nvitop.host.memory_total_bytes) == (12.5, 3.5, 1 << 30)

    (device,) = the_only(read(NVIDIA_SMI, "box:9835"), "box").devices
    assert (device.index, device.uuid, device.name) == (3, "GPU-df6e7a7c-7314-46f8-abc4-b88b36dcf3aa", "RTX 2080")
    assert (device.utilization_percent, device.sm_clock_mhz, device.performance_state) == (42.0, 1980.0, 2)

    devices = the_only(read(ALL_SMI, "10.1.2.3:9090"), "node-0058").devices
    assert [(device.index, device.uuid, device.utilization_percent) for device in devices] == [
        (0, "GPU-12345", 25.5),
        (1, "GPU-2", 1.0),
    ]


def test_a_gpu_that_two_exporters_report_is_one_gpu() -> None:
    values = series(DCGM, "dcgm", "node1:9400") + series(NVITOP, "nvitop", "node1:8000")
    targets = [{"job": job, "instance": f"node1:{port}"} for job, port in (("dcgm", 9400), ("nvitop", 8000))]
    found = hosts_in(values, [Series(target, (NOW, str(NOW - 1))) for target in targets], [], values)
    assert [device.utilization_percent for device in the_only(found, "node1").devices] == [97.0, 50.0]


@pytest.mark.parametrize(
    ("age_s", "ups", "interval_s", "state", "words"),
    [
        (59.0, "11", 5.0, "live", ""),
        (61.0, "11", 5.0, "old_samples", "Its newest sample is 1m01s old."),
        (140.0, "11", 60.0, "live", ""),
        (160.0, "11", 60.0, "old_samples", "Its newest sample is 2m40s old."),
        (1.0, "10", 5.0, "target_down", "Its exporter does not answer Prometheus."),
        (-1.0, "1", 5.0, "old_samples", "no new sample"),
    ],
)
def test_old_samples_and_dead_targets_are_states_and_no_readings(
    age_s: float, ups: str, interval_s: float, state: str, words: str
) -> None:
    (reading,) = read(DCGM, "node1:9400", age_s=age_s, ups=ups, interval_s=interval_s).values()
    assert (reading.state, words in reading.message) == (state, True), reading
    assert bool(reading.devices) == (state == "live")


def test_a_target_that_is_long_down_is_a_host_if_its_job_is_one_of_gpus() -> None:
    values = series(DCGM, "gpus", "node1:9400")
    sampled = [Series({"job": "gpus", "instance": "node1:9400"}, (NOW, str(NOW)))]
    ups = [Series({"job": "gpus", "instance": f"node{n}:9400"}, values=((NOW, str(int(n == 1))),)) for n in (1, 2)]
    assert {host: reading.state for host, reading in hosts_in(values, sampled, ups, values).items()} == {
        "node1": "live",
        "node2": "target_down",
    }
    web = Series({"job": "gpus", "instance": "web:80"}, values=((NOW, "1"),))
    assert list(hosts_in(values, sampled, [*ups, web], values)) == ["node1"]


def test_each_host_that_one_target_carries_has_an_age_of_its_own() -> None:
    target = {"job": "federate", "instance": "other:9090"}
    at = {name: {**target, "exported_instance": f"{name}:9400"} for name in ("node1", "node2")}
    values = [
        Series({"__name__": "all_smi_gpu_utilization", "uuid": f"GPU-{name}", "index": "0", **labels}, (NOW, "5"))
        for name, labels in at.items()
    ]
    sampled = [Series(at["node1"], (NOW, str(NOW - 3))), Series(at["node2"], (NOW, str(NOW - 250)))]
    up = Series({"__name__": "up", **target}, values=((NOW - 15, "1"), (NOW, "1")))
    found = hosts_in(values, sampled, [up], values)
    assert {host: (reading.state, len(reading.devices)) for host, reading in found.items()} == {
        "node1": ("live", 1),
        "node2": ("old_samples", 0),
    }
    assert set(HOST_LABELS) <= set(re.findall(r"\w+", SAMPLED.partition(")")[0]))


def test_labels_cannot_steer_the_terminal_and_hosts_have_bounds() -> None:
    evil = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-\x1b[2J",modelName="x\ny",Hostname="evil\u202e\x07host"} 1'
    found = hosts_in(*(series(evil, "j", "i:1"),) * 2, [], series(evil, "j", "i:1"))  # a time that is no time
    assert all(name.isprintable() for name in found)
    many = "\n".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{n}",UUID="GPU-{n}-x",modelName="{"n" * 999}",Hostname="h"}} 1' for n in range(600)
    )
    devices = the_only(read(many, "h:1"), "h").devices
    assert len(devices) == 512
    assert max(len(str(device.name)) for device in devices) == 200


class FakeServer:
    """Answers each connection as ``answer`` does; keeps what it was asked."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[bytes] = []
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            try:
                self.asked.append(connection.recv(65536))
                self._answer(connection, self.asked[-1])
            except OSError:
                pass

    def close(self) -> None:
        self._listening.close()


def http(body: str, status: str = "200 OK", headers: str = "") -> Answer:
    data = body.encode()
    return lambda connection, _: connection.sendall(f"HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n".encode() + data)


def drip(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X")
        time.sleep(0.02)


def flood(connection: socket.socket, request: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"[" * 65536)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], FakeServer]]:
    """Serve until the test ends."""
    servers: list[FakeServer] = []

    def start(answer: Answer) -> FakeServer:
        servers.append(FakeServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (lambda connection, _: connection.recv(1), "timed_out", "sent nothing for 0.2 s"),
        (drip, "timed_out", "did not answer within 1 s"),
        (flood, "unreadable", "more than 1 MiB"),
        (lambda connection, _: connection.sendall(b"\x00\xff\x1b]0;title\x07 rubbish\r\n\r\n"), "unreadable", "HTTP server"),
        (lambda connection, _: None, "unreadable", "HTTP server"),
        (http("<html>hello</html>"), "unreadable", "like Prometheus"),
        (http("[" * 5000), "unreadable", "like Prometheus"),
        (http('{"status":"success","data":{"result":[{"metric":{"a":1},"value":[0,"1"]}]}}'), "unreadable", "like Prometheus"),
        (http('{"status":"success","data":{"result":{"metric":1}}}'), "unreadable", "like Prometheus"),
        (http("", "401 Unauthorized"), "permission_denied", "refuses the login"),
        (http("", "302 Found", "Location: http://127.0.0.1:1/\r\n"), "failed", "sends us elsewhere"),
        (http("no", "502 Bad Gateway"), "failed", "status 502"),
        (http('{"status":"error","error":"too \\u001b[2Jmany\\nsamples."}', "422 No"), "failed", "error: too many samples."),
    ],
)
def test_any_answer_of_a_server_becomes_a_state_with_a_message(
    answer: Answer,
    state: str,
    words: str,
    serve: Callable[[Answer], FakeServer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "SILENCE_S", 0.2 if "0.2 s" in words else DEADLINE_S)
    monkeypatch.setattr(client_module, "ANSWER_S", 1.0 if "1 s" in words else DEADLINE_S)
    monkeypatch.setattr(client_module, "ANSWER_MAX_BYTES", 1 << 20)
    server = server_of(f"http://me:secret@127.0.0.1:{serve(answer).port}")
    with pytest.raises(QueryError) as raised:
        Client(server).ask("up")
    failure = raised.value.failure
    assert (failure.state, words in failure.message) == (state, True), failure
    assert "secret" not in repr((server, failure, str(raised.value)))
    assert failure.message.isprintable()


def test_a_password_goes_to_its_server_alone(tmp_path: Path, serve: Callable[[Answer], FakeServer]) -> None:
    good = http(json.dumps({"status": "success", "data": {"result": [{"metric": {"a": "b"}, "value": [1.5, "2"]}]}}))
    server = serve(good)
    asked = server_of(f"http://me%40lab:p%3Aw@127.0.0.1:{server.port}/prefix/")
    assert asked.url == f"http://127.0.0.1:{server.port}/prefix"
    assert Client(asked).ask('up{job="a b"}') == [Series({"a": "b"}, (1.5, "2"))]
    request = server.asked[0].decode()
    assert request.startswith("GET /prefix/api/v1/query?query=up%7Bjob%3D%22a+b%22%7D HTTP/1.1\r\n")
    assert f"Authorization: Basic {base64.b64encode(b'me@lab:p:w').decode()}\r\n" in request

    secret = tmp_path / "secret"
    secret.write_text("abc.def\n")
    Client(server_of(f"http://127.0.0.1:{server.port}", secret)).ask("up")
    assert "Authorization: Bearer abc.def\r\n" in server.asked[1].decode()
    for text in ("", "two\nlines", "ü"):
        secret.write_text(text)
        with pytest.raises(GputopError):
            server_of("http://x", secret)
    elsewhere = serve(http("", "302 Found", f"Location: http://127.0.0.1:{server.port}/\r\n"))
    with pytest.raises(QueryError):
        Client(server_of(f"http://me:secret@127.0.0.1:{elsewhere.port}")).ask("up")
    assert len(server.asked) == 2, "no redirect is followed"


@pytest.mark.parametrize(
    "url",
    [
        *("prom:9090", "ftp://prom", "file:///etc/passwd", "http://", "http://a:b", "http://[", "http://x?y"),
        *("http://u:\udcffpw@h:1", "http://h:1/\udcff", "http://\udcff:1"),
    ],
)
def test_an_invalid_server_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(GputopError, match="is not the URL of a server") as raised:
        server_of(url)
    assert url not in raised.value.message


def test_a_sample_is_passed_on_once_and_what_is_old_never() -> None:
    heard: list[Heard] = []
    host = PrometheusHost(object.__new__(Watch), "node1", heard.append)
    fresh = read(DCGM, "node1:9400")["node1"]
    host.take(fresh, None)
    host.take(fresh, None)
    assert [one.status.state for one in heard] == ["live"]
    assert heard[0].snapshot is not None
    assert heard[0].snapshot.notes[0].message == "Prometheus knows GPUs, but not processes and runs."
    for _ in range(2):
        host.take(None, Failure("refused", "Prometheus refuses the connection."))
    host.take(None, None)
    host.take(fresh, None)
    assert [one.status.state for one in heard] == ["live", "refused", "old_samples", "live"]
    assert [one.snapshot is None for one in heard] == [False, True, True, False]
    assert heard[1].status.last_heard_at == heard[0].status.last_heard_at


def test_a_host_does_not_stay_live_where_reading_its_server_fails_in_an_unforeseen_way(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [read(DCGM, "node1:9400", interval_s=0.1)]

    def read_once(reader: Reader) -> dict[str, HostReading]:
        if not readings:
            raise RuntimeError("odd")
        return readings.pop()

    monkeypatch.setattr(Reader, "read", read_once)
    watch = Watch(Server("http://x"), 0.01)
    heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
    host = watch.links()["node1"](heard.put)
    host.start()
    assert heard.get(timeout=DEADLINE_S).status.state == "live"
    failed = heard.get(timeout=DEADLINE_S).status
    host.close()
    assert (failed.state, "odd" in str(failed.message)) == ("failed", True)
    with pytest.raises(GputopError, match="gputop could not read it"):
        Watch(Server("http://x"), 1.0)


def test_later_hosts_are_reported_although_no_host_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """-H may name all the machines that the server knows at the start."""
    first = read(DCGM, "node1:9400", interval_s=0.1)
    later = {**first, "node2": first["node1"]}
    readings = iter([first])
    monkeypatch.setattr(Reader, "read", lambda reader: next(readings, later))
    watch = Watch(Server("http://x"), 0.01)
    told: queue.SimpleQueue[Links] = queue.SimpleQueue()
    assert watch.links(lambda host: host == "node1") == {}
    watch.announce(told.put, lambda host: host == "node1")
    assert list(told.get(timeout=DEADLINE_S)) == ["node2"]


def test_half_a_character_in_a_label_is_left_out(serve: Callable[[Answer], FakeServer]) -> None:
    found = {"metric": {"job": "gpu\ud800s", "\udc00instance": "h:1", "Hostname": "h"}, "value": [NOW, "1"]}
    server = serve(http(json.dumps({"status": "success", "data": {"result": [found]}})))
    Watch(server_of(f"http://127.0.0.1:{server.port}"), 1.0)
    assert any(b"job%3D~%22gpus%22" in request for request in server.asked)


def test_the_doctor_concludes_nothing_from_what_prometheus_lacks() -> None:
    heard: list[Heard] = []
    host = PrometheusHost(object.__new__(Watch), "node1", heard.append)
    host.take(read(DCGM, "node1:9400")["node1"], None)
    assert (snapshot := heard[0].snapshot) is not None
    doctor = Doctor()
    for n in range(20):
        at: dict[str, Any] = {"sequence": n, "time": NOW + 15 * n, "monotonic_s": 15.0 * n}
        assert doctor.observe(replace(snapshot, **at)) == ()


def answer_queries(connection: socket.socket, request: bytes) -> None:
    """Answer as a server that knows two hosts, one of which is down."""
    labels = {"job": "gpus", "instance": "node1:9400"}
    now = time.time()
    up = {"metric": labels, "values": [[now - 2, "1"], [now - 1, "1"]]}
    down = {"metric": {**labels, "instance": "node2:9400"}, "values": [[now - 1, "0"]]}
    values = [
        {"metric": dict(one.metric), "value": [now, one.value and one.value[1]]} for one in series(DCGM, *labels.values())
    ]
    query = unquote_plus(request.decode())
    sampled = [{"metric": labels, "value": [now, str(now - 1)]}]
    found = [up, down] if "up{" in query else sampled if "timestamp(" in query else values
    http(json.dumps({"status": "success", "data": {"resultType": "", "result": found}}))(connection, request)


def test_the_screen_shows_hosts_of_prometheus_with_the_age_of_their_samples(
    tmp_path: Path, serve: Callable[[Answer], FakeServer]
) -> None:
    environment = {"GPUTOP_DIR": str(tmp_path), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "gputop", "--prometheus", f"http://me:secret@127.0.0.1:{serve(answer_queries).port}"]
    with Terminal(command, environment, columns=140, rows=30) as terminal:
        shown = terminal.wait_for(lambda text: "exporter down" in text and re.search(r"node1 +\S+ old", text) is not None)
        assert "2 hosts · 2 GPUs" in shown
        assert "Its exporter does not answer Prometheus." in shown, "what needs a person comes first"
        terminal.press("down")
        terminal.press("enter")
        shown = terminal.wait_for("ON node1")
        assert "Prometheus knows GPUs, but not processes and runs." in terminal.wait_for("Prometheus knows")
        assert "secret" not in shown
        assert "No run yet" not in shown, "that is not known"
        assert shown.count("Prometheus knows GPUs") == 3, "processes, and training"
        terminal.press("o")
        terminal.wait_for(lambda text: text.count("Prometheus knows GPUs") == 4)
        terminal.press("q")
        assert terminal.wait_exit() == 0


ASKS_OFTEN = """
import sys
from gputop.hosts.prometheus import watch
watch.KNOWN_EVERY_S = 0.2
from gputop.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""A gputop that asks a server for its hosts several times a second, instead of once a minute."""


def telling_of(instances: list[str]) -> Answer:
    """Answer as a server that scrapes these targets now."""

    def answer(connection: socket.socket, request: bytes) -> None:
        now, query, found = time.time(), unquote_plus(request.decode()), []
        for labels in [{"job": "gpus", "instance": instance} for instance in instances]:
            host = labels["instance"].partition(":")[0]
            gpus = [dict(one.metric) for one in series(DCGM, *labels.values())]
            own = [{**labels_, **{name: host for name in labels_ if name.lower() == "hostname"}} for labels_ in gpus]
            if "up{" in query:
                found.append({"metric": labels, "values": [[now - 2, "1"], [now - 1, "1"]]})
            elif "timestamp(" in query:
                found.append({"metric": labels, "value": [now, str(now - 1)]})
            else:
                values = [one.value and one.value[1] for one in series(DCGM, *labels.values())]
                found += [{"metric": metric, "value": [now, value]} for metric, value in zip(own, values, strict=True)]
        body = json.dumps({"status": "success", "data": {"resultType": "", "result": found}})
        http(body)(connection, request)

    return answer


@contextlib.contextmanager
def reading(port: int, *words: str, out: Path) -> Iterator[None]:
    """A gputop that reads the server on this port, until the block ends; then it ends well."""
    command = [sys.executable, "-c", ASKS_OFTEN, *words, "-i", "200ms", "--prometheus", f"http://127.0.0.1:{port}"]
    with out.open("wb") as to:
        process = subprocess.Popen(command, stdout=to, env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(DEADLINE_S)
    assert code == 0


FIRST_READING_REQUESTS = 4
"""The requests of one reading: hosts, scrapes, times of samples, values."""


def has(file: Path, words: bytes, times: int = 1) -> Callable[[], bool]:
    return lambda: file.exists() and file.read_bytes().count(words) >= times


def test_a_stream_follows_hosts_that_come_later(tmp_path: Path, serve: Callable[[Answer], FakeServer]) -> None:
    instances, out = ["node1:9400"], tmp_path / "out"
    with reading(serve(telling_of(instances)).port, "--stream", out=out):
        eventually(has(out, b'"host": "node1"'), "the first host is there")
        instances.append("node3:9400")
        eventually(has(out, b'"host": "node3"'), "the later one is there too")
    known = {line["host"]: line["untracked_over_hosts"] for line in map(json.loads, out.read_text().splitlines())}
    assert known == {"node1": None, "node3": None}, "Prometheus knows of no process"


def test_a_recording_follows_hosts_that_come_later(tmp_path: Path, serve: Callable[[Answer], FakeServer]) -> None:
    instances = ["node1:9400"]
    file, later, taken = (tmp_path / name for name in ("rec.ndjson", "rec.node3-2.ndjson", "rec.node3.ndjson"))
    taken.write_text("not ours")
    with reading(serve(telling_of(instances)).port, "record", str(file), out=tmp_path / "out"):
        eventually(has(file, b"\n", 2), "the first host is recorded")
        instances.append("node3:9400")
        eventually(has(later, b"\n", 2), "the later one is recorded too")
    assert {one.host.hostname for one in read_recording(later)} == {"node3"}
    assert taken.read_text() == "not ours"


def test_the_doctor_takes_in_hosts_that_come_later(
    serve: Callable[[Answer], FakeServer], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "KNOWN_EVERY_S", 0.2)
    monkeypatch.setattr(across._Watched, "settled", lambda self, lost: len(self.outcomes) == 2)
    instances, requests = ["node1:9400"], itertools.count()

    def answer(connection: socket.socket, request: bytes) -> None:
        if next(requests) == FIRST_READING_REQUESTS:
            instances.append("node3:9400")
        telling_of(instances)(connection, request)

    url = f"http://127.0.0.1:{serve(answer).port}"
    assert main(["-i", "200ms", "doctor", "--for", "60s", "--json", "--prometheus", url]) == 0
    told = json.loads(capfd.readouterr().out)
    assert list(told["hosts"]) == ["node1", "node3"]
    assert all(one["findings"] == [] for one in told["hosts"].values())


def test_hosts_that_come_and_go_while_the_screen_runs(tmp_path: Path, serve: Callable[[Answer], FakeServer]) -> None:
    instances = ["node1:9400"]
    environment = {"GPUTOP_DIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    url = f"http://127.0.0.1:{serve(telling_of(instances)).port}"
    command = [sys.executable, "-c", ASKS_OFTEN, "--prometheus", url]
    with Terminal(command, environment, columns=140, rows=30) as terminal:
        terminal.wait_for(lambda text: "1 host " in text and re.search(r"node1 +\S+ old", text))
        instances.append("node3:9400")
        terminal.wait_for(lambda text: "2 hosts" in text and re.search(r"node3 +\S+ old", text))
        instances.remove("node1:9400")
        terminal.wait_for("Prometheus no longer knows it.")
        terminal.press("q")
        assert terminal.wait_exit() == 0


def test_a_server_that_refuses_the_connection_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(GputopError, match="refuses the connection"):
        Watch(Server(f"http://127.0.0.1:{port}"), 1.0)


def test_the_next_question_does_not_wait_for_the_end_of_a_thread_that_has_answered(
    serve: Callable[[Answer], FakeServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = http(json.dumps({"status": "success", "data": {"result": []}}))
    client = Client(server_of(f"http://127.0.0.1:{serve(good).port}"))
    ends = threading.Event()
    run = threading.Thread.run

    def run_on(self: threading.Thread) -> None:
        run(self)
        if self.name == "prometheus-query":
            ends.wait(DEADLINE_S)

    monkeypatch.setattr(threading.Thread, "run", run_on)
    assert client.ask("up") == client.ask("up") == []
    ends.set()
