"""Scripts of the frameworks, unmodified under ``gputop run``: they behave the same, and are tracked correctly."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from tests.packages import needs
from tests.tracking.auto.test_auto import RUN
from tests.tracking.kit import Home, home, read_all, without_checkout

pytestmark = [needs("torch"), pytest.mark.warm]
assert home

SCRIPTS = Path(__file__).parent / "framework_scripts"
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
EXTENSIONS = {"TORCH_EXTENSIONS_DIR": str(Path.home() / ".cache" / "torch_extensions")}
"""DeepSpeed compiles one, which takes more than a minute: once for all of its tests."""
QUIET = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def both(home: Home, *command: str) -> tuple[int, dict[str, list[float]]]:
    """Run a script without and with tracking, check that weights, losses and exit code are the same, and return what it prints.

    Frameworks print how long they took, so that only the last line can be compared.
    """
    settings = {**QUIET, "HOME": str(home.state), **EXTENSIONS}
    plain = home.finish(command, SCRIPTS, **settings)
    assert not home.archives(), "a run without gputop run"
    tracked = home.finish((*RUN, *command), SCRIPTS, **settings)
    assert (plain.returncode, tracked.returncode) == (0, 0), plain.stderr + tracked.stderr
    assert "gputop" not in without_checkout(tracked.stderr)
    last = plain.stdout.splitlines()[-1]
    assert tracked.stdout.splitlines()[-1] == last
    said = json.loads(last)
    return said["steps"], said["losses"]


def series_of(home: Home, rank: int = 0) -> dict[str, dict[int, float]]:
    """The last value of each metric at each step."""
    (archive,) = [path for path in home.archives() if path.name.startswith(f"rank-{rank:05d}")]
    return {name: dict(points) for name, points in read_all(archive).series.items()}


def assert_losses(home: Home, steps: int, losses: dict[str, list[float]]) -> None:
    """One run with as many ranks as there are losses; each rank's loss at each of its steps is the script's own."""
    run = home.only_run()
    assert (run.name, run.state, len(run.ranks)) == ("mine", "finished", len(losses))
    for rank, expected in enumerate(losses.values()):
        found = series_of(home, rank)
        assert list(found["loss"]) == list(range(steps)) == list(found["lr"])
        assert list(found["loss"].values()) == pytest.approx(expected, rel=1e-6)


@needs("transformers", "accelerate")
def test_hugging_face_trainer(home: Home, tmp_path: Path) -> None:
    steps, said = both(home, sys.executable, "trainer.py", str(tmp_path))
    assert_losses(home, steps, {"loss": said.pop("loss")})
    found = series_of(home)
    assert list(found["epoch"].values()) == [0.0] * 6 + [1.0] * 6
    assert {name: list(found[name].values()) for name in said} == {name: pytest.approx(values) for name, values in said.items()}
    assert list(found["grad_norm"]) == [3, 7, 11], "of the step that has just ended"
    assert list(found["eval_loss"]) == [5, 11]
    assert found["phase/evaluation"]
    facts = home.only_run().ranks[0].facts
    assert facts["model"]["class"] == "Net"
    assert "checkpoint" in facts
    assert "transformers.trainer" in facts["frameworks"]


@needs("transformers")
def test_a_model_of_transformers_alone_brings_no_trainer(home: Home) -> None:
    """It distinguishes the script's own DataParallel from the Trainer's."""
    script = (
        "from transformers import BertModel; from gputop.tracking.auto.readings.settings import frameworks; print(frameworks())"
    )
    code, out, err = home.run(script)
    assert code == 0, err
    assert "transformers" in ast.literal_eval(out)
    assert "transformers.trainer" not in ast.literal_eval(out)


@needs("lightning")
def test_lightning(home: Home) -> None:
    steps, said = both(home, sys.executable, "fit.py")
    assert_losses(home, steps, {"loss": said["loss"]})
    found = series_of(home)
    assert list(found["val_loss"].values()) == pytest.approx(said["val_loss"])
    assert list(found["train_loss"].values()) == pytest.approx([sum(said["loss"][:6]) / 6, sum(said["loss"][6:]) / 6])
    assert set(found["lr"].values()) == {0.05}
    assert found["phase/evaluation"]


@pytest.mark.real_start("Lightning starts its second process as it finds the first")
@needs("lightning")
def test_lightning_on_two_processes_is_one_run(home: Home, tmp_path: Path) -> None:
    settings = {**QUIET, "HOME": str(home.state)}
    command = (sys.executable, "fit.py", "--devices", "2", "--out", str(tmp_path))
    done = home.finish((*RUN, *command), SCRIPTS, **settings)
    assert done.returncode == 0, done.stderr
    losses = {f"rank{rank}": ast.literal_eval((tmp_path / f"rank{rank}").read_text()) for rank in range(2)}
    assert_losses(home, 6, losses)


@needs("accelerate")
def test_accelerate(home: Home) -> None:
    assert_losses(home, *both(home, sys.executable, "accelerated.py"))


@needs("accelerate")
def test_accelerate_on_two_processes(home: Home) -> None:
    steps, losses = both(home, *TORCHRUN, "accelerated.py")
    assert len(losses) == 2
    assert_losses(home, steps, losses)


@pytest.mark.real_start("DeepSpeed")
@needs("deepspeed")  # in no extra: `pip install deepspeed` builds it from source, and it needs a C++ compiler to run
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_deepspeed(home: Home, stage: int) -> None:
    steps, losses = both(home, *TORCHRUN, "deepspeeded.py", str(stage))
    assert len(losses) == 2
    assert_losses(home, steps, losses)
    assert "deepspeed" in home.only_run().ranks[0].facts["frameworks"]


def test_fully_sharded(home: Home) -> None:
    steps, losses = both(home, *TORCHRUN, "sharded.py")
    assert len(losses) == 2
    assert_losses(home, steps, losses)
    assert "FSDPModule" in home.only_run().ranks[0].facts["model"]["wrappers"]


def assert_called(home: Home, way: str, wrapper: str) -> None:
    """Each rank reports the size of its sharded model's inputs, in the steps after the one that finds the model."""
    settings = {**QUIET, "HOME": str(home.state), **EXTENSIONS}
    done = home.finish((*RUN, *TORCHRUN, "uneven.py", way), SCRIPTS, **settings)
    assert done.returncode == 0, done.stderr
    assert "gputop" not in without_checkout(done.stderr)
    for rank in home.only_run().ranks:
        rows = 8 * (rank.rank + 1)
        assert rank.facts["model"]["wrapper"] == wrapper
        called = rank.facts["batches"]["called"]
        # Read from the second step on, later at those before a collection.
        assert [step for step, *_ in called][:8] == list(range(1, 9))
        assert {tuple(sizes) for _, *sizes in called} == {(rows, 4 * rows)}


@pytest.mark.parametrize(("way", "wrapper"), [("fully_shard", "FSDPModule"), ("fsdp", "FullyShardedDataParallel")])
def test_the_work_of_sharded_ranks_is_measured(home: Home, way: str, wrapper: str) -> None:
    assert_called(home, way, wrapper)


@pytest.mark.real_start("DeepSpeed")
@needs("deepspeed")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("stage", [0, 1, 2])
def test_the_work_of_the_ranks_of_deepspeed_is_measured(home: Home, stage: int) -> None:
    assert_called(home, f"deepspeed{stage}", "DeepSpeedEngine")


@needs("keras")
def test_keras_on_torch(home: Home) -> None:
    steps, losses = both(home, sys.executable, "keras_fit.py")
    assert steps == 120
    assert_losses(home, steps, {"loss": losses["loss"]})
    found = series_of(home)
    assert list(found["epoch"].values()) == [float(step // 4) for step in range(120)]
    assert list(found["val_loss"].items()) == [
        (4 * epoch + 3, pytest.approx(value)) for epoch, value in enumerate(losses["val_loss"])
    ]
    assert home.only_run().ranks[0].facts["optimizer"]["type"] == "SGD"
