"""What every test gets: its own state directory, so that nothing touches the home directory of the user."""

from __future__ import annotations

import gc
import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gputop.sources.host import procfs
from tests import left_behind
from tests.fuzzing import DEFAULT_EXAMPLES, TIMES, examples
from tests.order import dealt

os.environ["GPUTOP_AUTO"] = "0"  # tests that train in this process record only what they log; set before torch is imported
left_behind.watch()
# A shell without job control starts a command in the background with these two ignored, and so would all that tests start.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


# A busy machine draws examples slowly and runs them slowly: neither says anything about a test.
settings.register_profile(
    "gputop", max_examples=examples(DEFAULT_EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gputop")
if TIMES > 1:
    settings.register_profile("fuzz", print_blob=True)
    settings.load_profile("fuzz")


IMPORTING = ("import_torch", "import_demos")
"""Fixtures of ``tests/packages``: the test process imports torch, which takes 2 to 4 s of CPU."""
gc.disable()  # while tests are collected: nothing of it is garbage, and looking for some took a sixth of the time
_numbers = itertools.count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deal out the modules that last long, and let those that import torch follow each other: few test processes import it."""
    long: dict[Path, list[pytest.Item]] = {}
    importing: list[pytest.Item] = []
    short: list[pytest.Item] = []
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(
                f"This id is another one in each process, so no test can be dealt out: name it. {item.nodeid}"
            )
        if item.get_closest_marker("long"):
            long.setdefault(item.path, []).append(item)
        else:
            names: set[str] = set(getattr(item, "fixturenames", ()))
            (short if names.isdisjoint(IMPORTING) else importing).append(item)
    items[:] = dealt([*importing, *short], [*long.values()], getattr(config, "workerinput", {}).get("workercount", 1))


def pytest_collection_finish() -> None:
    """Let the collector leave alone what lives as long as the tests: looking through all of them took it 0.3 s each time."""
    gc.enable()
    gc.freeze()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Give each test a directory with a number of its own: for each, pytest would look through those of all earlier tests."""
    name = re.sub(r"\W", "_", request.node.name)[:24]
    path = tmp_path_factory.getbasetemp() / f"{next(_numbers)}_{name}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point all of gputop's directories to one of this test."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GPUTOP_DIR", str(tmp_path / "gputop"))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GPUTOP_RUN_ID", "GPUTOP_JOB_ID", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(autouse=True, scope="session")
def loud_rules() -> Iterator[None]:
    """Let a failing rule or reading fail the test: users only see a note on what could not be judged or read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gputop.doctor.diagnosis.Doctor.raises", True)
        patch.setattr("gputop.agent.sampler.Sampler.raises", True)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_training_of_its_own() -> Iterator[None]:
    """Let no reading take this process for a training: an earlier test may have imported torch, and tests are busy.

    What a test starts would be its ranks.
    """
    read = procfs.read_torch_maps
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(procfs, "read_torch_maps", lambda pid: (False, False) if pid == os.getpid() else read(pid))
        yield
