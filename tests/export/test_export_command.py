"""``gputop export``: a real scrape over HTTP of a simulated machine, and what it says where it cannot serve."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gputop.export.names import METRICS
from tests import nvml_sim
from tests.patience import DEADLINE_S
from tests.tracking.kit import Home, home

assert home
ROOT = Path(__file__).parents[2]
EXPORT = (sys.executable, "-m", "gputop", "export")
EXPOSED = {f"{metric.name}_total" if metric.kind == "counter" else metric.name for metric in METRICS}
"""The names as they are queried: Prometheus adds "_total" to a counter's."""


def scrape(url: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        families = parser.text_string_to_metric_families(answer.read().decode())
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def of_run(found: dict[str, Any], metric: str) -> list[tuple[dict[str, str], float]]:
    """What a metric says of the run of this test: others may train on this machine."""
    ids = {labels["run_id"] for labels, _ in found.get("gputop_run_info", ()) if labels["run"] == "exported"}
    return [(labels, value) for labels, value in found.get(metric, ()) if labels["run_id"] in ids]


def test_a_scrape_contains_the_machine_and_its_runs(home: Home, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    machine = nvml_sim.h100_box(2, busy=1).set(1, power=None, power_instant=None)
    environment = nvml_sim.environment(machine.write(tmp_path / "scenario"))
    script = "import gputop, sys; r = gputop.init(name='exported'); r.log({'loss': 0.25}, step=7); print(flush=True); input()"
    training = subprocess.Popen(
        [sys.executable, "-c", script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert training.stdout is not None
    training.stdout.readline()
    exporter = subprocess.Popen([*EXPORT, "--port", "0", "-i", "200ms"], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert exporter.stderr is not None
        url = re.search(r"http://127\.0\.0\.1:\d+/metrics", exporter.stderr.readline())
        assert url
        deadline = time.monotonic() + DEADLINE_S
        found: dict[str, Any] = {}
        while not of_run(found, "gputop_run_loss") or len(found.get("hw_temperature_limit_celsius", ())) < 4:
            assert time.monotonic() < deadline, found.keys()
            time.sleep(0.1)
            found = scrape(url.group())
        assert set(found) <= EXPOSED
        assert found["gputop_up"] == [({}, 1.0)]
        of = {labels["gpu"]: value for labels, value in found["hw_gpu_utilization_ratio"]}
        assert of == {"0": 0.98, "1": 0.0}
        assert [labels["gpu"] for labels, _ in found["hw_power_watts"]] == ["0"], "what is unknown is absent"
        ((labels, loss),) = of_run(found, "gputop_run_loss")
        assert (labels["metric"], loss) == ("loss", 0.25)
        assert [value for _, value in of_run(found, "gputop_rank_step")] == [7.0]
        ((labels, _),) = of_run(found, "gputop_run_info")
        assert labels["tracked"] == "true"
        port = url.group().rsplit(":", 1)[1].split("/")[0]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", int(port)), 5)  # it listens at one address alone
        taken = subprocess.run(
            [*EXPORT, "--port", port], env=environment, capture_output=True, text=True, check=False, timeout=180
        )
        assert (taken.returncode, taken.stderr.count("\n")) == (1, 1)
        assert "Choose another --port" in taken.stderr
        exporter.send_signal(signal.SIGINT)
        assert exporter.wait(DEADLINE_S) == 0
        assert exporter.stderr.read() == ""
    finally:
        for process in (exporter, training):
            process.kill()
            process.communicate()


def test_without_the_library_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ModuleNotFoundError('no', name='prometheus_client')\n")
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    done = subprocess.run(EXPORT, env=env, capture_output=True, text=True, check=False, timeout=180)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "pip install prometheus-client" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--port", "70000"), 2, "There is no port 70000"),
        (("--address", "not an address"), 1, "cannot listen at not an address"),
        (("-g", "9", "--port", "0"), 1, "There is no GPU '9'"),
    ],
)
def test_what_cannot_be_served_is_reported_in_a_sentence(
    home: Home, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    environment = nvml_sim.environment(nvml_sim.h100_box(1).write(tmp_path / "scenario"))
    done = subprocess.run([*EXPORT, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    board = json.loads((ROOT / "docs" / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    asked += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    names = {name for text in asked for name in re.findall(r"\b(?:hw|gputop)_\w+", text) if f"{name}=" not in text}
    labels = {label for metric in METRICS for label in metric.labels}
    assert len(names) > 10
    assert names - labels <= EXPOSED
