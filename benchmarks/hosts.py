"""What it costs to watch many hosts on one screen: CPU, memory, bytes to the terminal, and the delay of a key.

One process plays the streams of all hosts: 8 busy H100s each, and 8 ranks of a run over 16 hosts that log six metrics per
second. `--via` reaches a host with `cat`, so that only the screen's own process is measured and not ssh.

    python benchmarks/hosts.py [--hosts 16,32,64,128] [--seconds 30] [--json FILE] [--page docs/hosts.md]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil
from common.ending import ended_by_signals
from common.page import put

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gputop.cli.hosts import screen_interval_s  # noqa: E402 - from the checkout
from gputop.snapshot import DeviceUse, Points, Snapshot  # noqa: E402
from tests import samples  # noqa: E402
from tests.terminal import Terminal  # noqa: E402

GPUS = 8
HOSTS_PER_RUN = 16
METRICS = ("loss", "step_s", "phase/data", "phase/forward", "phase/backward", "phase/optimizer")
KEYS = 20
PAUSE_S = 0.23
SETTLE_S = 10.0
SENT = "sent"
"""The file that holds how many snapshots were played."""
RELAY = '#!/bin/sh\necho gputop-connected\nexec cat "$(dirname "$0")/$1"\n'


def snapshot(host: int, tick: int, interval_s: float, began: float) -> Snapshot:
    """Return the snapshot of a host at a tick."""
    name = f"n{host:03}"
    first = host % HOSTS_PER_RUN * GPUS
    now = began + tick * interval_s
    devices = tuple(replace(samples.device(index), uuid=f"GPU-{host:04x}{index:04x}") for index in range(GPUS))
    base = samples.run(GPUS, step=int(tick * interval_s) + 100, run_id=f"run-{host // HOSTS_PER_RUN}")
    ranks = tuple(
        replace(
            rank,
            rank=first + rank.rank,
            hostname=name,
            world_size=GPUS * HOSTS_PER_RUN,
            last_log_at=now,
            metrics={**rank.metrics, "step_s": 0.3, "phase/backward": 0.18},
        )
        for rank in base.ranks
    )
    run = replace(base, ranks=ranks, world_size=GPUS * HOSTS_PER_RUN)
    processes = tuple(
        samples.rank_process(
            first + index, (DeviceUse(devices[index].uuid, 70 << 30, 97.0, "C"),), run_id=run.run_id, pid=4000 + index
        )
        for index in range(GPUS)
    )
    steps = tuple(range(int(tick * interval_s) + 1, int((tick + 1) * interval_s) + 1))
    times = tuple(began + step for step in steps)
    points = tuple(
        Points(run.run_id, first + index, metric, steps, times, tuple(0.3 + (step * 7 + index) % 11 / 100 for step in steps))
        for index in range(GPUS)
        for metric in METRICS
    )
    whole = samples.snapshot(0, devices=devices, processes=processes, runs=(run,), points=points)
    machine = replace(whole.host, hostname=name)
    return replace(whole, sequence=tick, time=now, monotonic_s=now, interval_s=interval_s, host=machine)


def play(folder: Path, hosts: int, interval_s: float) -> None:
    """Write the streams of all hosts, spread over the interval, until killed."""
    pipes = [os.open(folder / f"n{host:03}", os.O_RDWR) for host in range(hosts)]
    counter = os.open(folder / SENT, os.O_WRONLY | os.O_CREAT)
    began = time.time()
    for tick in range(10**9):
        for host, pipe in enumerate(pipes):
            wait_s = began + (tick + host / hosts) * interval_s - time.time()
            if wait_s > 0:
                time.sleep(wait_s)
            os.write(pipe, snapshot(host, tick, interval_s, began).to_json(compact=True).encode() + b"\n")
            os.pwrite(counter, f"{tick * hosts + host + 1:12}".encode(), 0)


def key_s(terminal: Terminal, key: str) -> float:
    """Return the time from a key that moves the cursor to the first bytes of the screen."""
    time.sleep(PAUSE_S)
    before, began = len(terminal.received), time.perf_counter()
    pressing = threading.Thread(target=terminal.press, args=(key,))  # press() itself waits a while after the key
    pressing.start()
    while len(terminal.received) == before and time.perf_counter() - began < 5.0:
        time.sleep(0.001)
    passed = time.perf_counter() - began
    pressing.join()
    return passed


def measure(hosts: int, seconds: float) -> dict[str, float]:
    """Return the figures of a screen of this many hosts."""
    interval_s = screen_interval_s(1.0, hosts)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        relay = folder / "relay"
        relay.write_text(RELAY)
        relay.chmod(0o755)
        for host in range(hosts):
            os.mkfifo(folder / f"n{host:03}")
        environment = {"HOME": name, "XDG_STATE_HOME": name, "XDG_CONFIG_HOME": name, "GPUTOP_DIR": name}
        words = [sys.executable, __file__, "--play", name, "--hosts", str(hosts)]
        player = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)})
        via = f"{shlex.quote(str(relay))} {{host}}"
        command = [sys.executable, "-m", "gputop", "-H", f"n[000-{hosts - 1:03}]", "--via", via]
        try:
            began = time.perf_counter()
            with Terminal(command, {**environment, "PYTHONPATH": str(ROOT)}, columns=160, rows=50) as terminal:
                terminal.wait_for(f"{hosts} hosts · {hosts * GPUS} GPUs", 120.0)
                ready_s = time.perf_counter() - began
                time.sleep(SETTLE_S)
                screen = psutil.Process(terminal.process.pid)
                sent, spent, at = len(terminal.received), sum(screen.cpu_times()[:2]), time.perf_counter()
                played = int((folder / SENT).read_text())
                time.sleep(seconds)
                passed = time.perf_counter() - at
                cpu_s = sum(screen.cpu_times()[:2]) - spent
                played = int((folder / SENT).read_text()) - played
                per_s = (len(terminal.received) - sent) / passed
                memory = screen.memory_full_info().uss / 2**20
                waits = [key_s(terminal, "up" if number % 2 else "down") for number in range(2 * KEYS)]
                terminal.press("q")
                terminal.wait_exit(60.0)
        finally:
            player.kill()
            player.wait()
    return {
        "interval_s": interval_s,
        "ready_s": ready_s,
        "cores": cpu_s / passed,
        "cpu_s_per_snapshot": cpu_s / played,
        "memory_mib": memory,
        "bytes_per_s": per_s,
        "key_median_s": statistics.median(waits),
        "key_worst_s": max(waits),
    }


def table_of(found: Mapping[int, Mapping[str, float]]) -> str:
    """Return the figures as a table in Markdown."""
    head = (
        "hosts",
        "read every",
        "ready",
        "cores",
        "CPU per snapshot",
        "MiB",
        "bytes/s to the terminal",
        "key: median",
        "worst",
    )
    rows = [
        (
            f"{hosts}",
            f"{one['interval_s']:g} s",
            f"{one['ready_s']:.1f} s",
            f"{one['cores']:.2f}",
            f"{one['cpu_s_per_snapshot'] * 1e3:.1f} ms",
            f"{one['memory_mib']:.0f}",
            f"{one['bytes_per_s']:.0f}",
            f"{one['key_median_s'] * 1e3:.0f} ms",
            f"{one['key_worst_s'] * 1e3:.0f} ms",
        )
        for hosts, one in found.items()
    ]
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="16,32,64,128", metavar="N,N", help="numbers of hosts (default 16,32,64,128)")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long to measure each (default 30)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also put the table into this page, between its marks")
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play is not None:
        hosts = int(options.hosts)
        play(options.play, hosts, screen_interval_s(1.0, hosts))
        return
    began_load = os.getloadavg()[0]
    found = {hosts: measure(hosts, options.seconds) for hosts in map(int, options.hosts.split(","))}
    table = table_of(found)
    load = f"load average {began_load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end"
    text = f"{os.cpu_count()} cores, Python {platform.python_version()}, {load}:\n\n{table}"
    print(text)
    if options.page:
        put(options.page, "benchmarks/hosts.py", text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    with ended_by_signals():
        main()
