"""``kill -9`` at any moment of a training that is tracked automatically: what the journal holds is what the training did.

``KILLS=200 pytest -s tests/tracking/auto/test_kills.py`` kills as many and says what it cost; the suite kills a few.
"""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from pathlib import Path

import pytest

from gputop.tracking.reader.runs import RunReader
from tests.packages import needs
from tests.tracking.kit import Home, eventually, home, read_all

pytestmark = needs("torch")
assert home

KILLS = int(os.environ.get("KILLS") or 5)
KINDS = ("plain", "loader", "slow", "saves")
CONTROL_STEPS = 300
SCRIPTS = Path(__file__).parent / "scripts"
RUN = (sys.executable, "-m", "gputop", "run", "--")
ROW = struct.Struct("<qdd")
Row = tuple[int, float, float]


def own_record(path: Path) -> list[Row]:
    """What the training itself wrote: step, loss and time of each step."""
    raw = path.read_bytes() if path.exists() else b""
    return list(ROW.iter_unpack(raw[: len(raw) // ROW.size * ROW.size]))


def train(home: Home, kind: str, place: Path, *command: str) -> tuple[str, list[tuple[int, float]]]:
    """Train to the end; return the checksum of weights and random state, and each step's loss."""
    record = place / f"{kind}-{len(command)}"
    steps = CONTROL_STEPS if kind != "slow" else 30
    done = home.finish([*command, sys.executable, "victim.py", kind, str(record), str(steps)], SCRIPTS)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, [(step, loss) for step, loss, _ in own_record(record)]


@pytest.mark.warm
@pytest.mark.timeout(300 + 10 * KILLS)
def test_a_journal_says_what_the_killed_training_did(home: Home, tmp_path: Path) -> None:
    bare = {kind: train(home, kind, tmp_path) for kind in KINDS}
    assert bare == {kind: train(home, kind, tmp_path, *RUN) for kind in KINDS}, "other weights, losses or random numbers"
    rng = random.Random(13)
    lost_steps, lost_s, empty, steps = [0], [0.0], 0, 0
    for number in range(KILLS):
        kind, record, name = KINDS[number % len(KINDS)], tmp_path / f"victim{number}", f"victim{number}"
        words = [*RUN, sys.executable, "victim.py", kind, str(record), "-1"]
        process = home.open(words, SCRIPTS, OMP_NUM_THREADS="1", GPUTOP_RUN_ID=name)
        if number % 5 != 4:  # else while it starts, and at its first steps
            wanted = int(rng.expovariate(0.05 if kind == "slow" else 0.005))
            eventually(lambda path=record, wanted=wanted: len(own_record(path)) > wanted, "it trains", 120.0)
        time.sleep(rng.random() * 0.2)
        process.kill()
        _, err = process.communicate()
        assert (process.returncode, err) == (-9, "")

        own = own_record(record)
        assert [step for step, _, _ in own] == list(range(len(own)))
        truth = [(step, loss) for step, loss, _ in own]
        both = min(len(truth), len(bare[kind][1]))
        assert truth[:both] == bare[kind][1][:both], "tracking has changed the training"
        archives = [path for path in (home.runs / name).glob("*.gpr") if path.stat().st_size]
        ring = next((ring for ring in home.rings() if ring.name.startswith(f"{name}-")), None)
        seen = read_all(archives[0], ring).series.get("loss", []) if archives else []
        assert seen[: len(truth)] == truth[: len(seen)], "each step that is there is right, and none before it is missing"
        assert len(seen) <= len(truth) + 1, "the last one was killed before it wrote its own record"
        reader = RunReader(home.runs)
        state = next((run.state for run in reader.poll().runs if run.run_id == name), None)
        assert reader.unreadable() == {}
        reader.close()
        assert state == ("killed" if archives else None)
        left = [ring for ring in home.rings() if ring.name.startswith(f"{name}-") and ring.stat().st_size]
        assert not left, "its ring is copied and removed"
        if archives:
            assert read_all(archives[0]).series.get("loss", []) == seen, "nothing is lost on the way to the disk"
        steps, empty = steps + len(truth), empty + (not seen)
        if len(seen) < len(truth):
            lost_steps.append(len(truth) - len(seen))
            if seen:
                lost_s.append(own[-1][2] - own[len(seen) - 1][2])
    print(
        f"\n{KILLS} killed after {steps} steps, 0 wrong; {empty} before their first record; the most lost: "
        f"{max(lost_steps)} steps, {1000 * max(lost_s):.0f} ms; {len(lost_steps) - 1} lost any"
    )
