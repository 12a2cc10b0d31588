"""The adapters inside the real frameworks, each in a process of its own with a tiny model made on the spot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gputop.snapshot import Run
from tests import REPOSITORY
from tests.packages import needs
from tests.tracking.kit import Everything, Home, home, read_all

pytestmark = pytest.mark.warm
assert home

ADAPTERS = REPOSITORY / "gputop" / "adapters"


def ran(home: Home, script: str, *arguments: str, **environment: str) -> str:
    """Run a script to its good end and return its output."""
    quiet = {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    code, out, err = home.run(script, *arguments, **quiet, HOME=str(home.state), **environment)
    assert code == 0, err
    assert "gputop:" not in err, err
    return out


def the_run(home: Home) -> tuple[Run, Everything]:
    (archive,) = home.archives()
    return home.only_run(), read_all(archive)


TINY = """
import torch
torch.manual_seed(0)
X = torch.randn(48, 4); Y = (X.sum(1, keepdim=True) > 0).float()
"""

TRAINER = (
    TINY
    + """
import sys
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from gputop.adapters.huggingface import GputopCallback

class Config(PretrainedConfig):
    model_type = "tiny"
class Net(PreTrainedModel):
    config_class = Config
    def __init__(self, config):
        super().__init__(config); self.layer = torch.nn.Linear(4, 1); self.post_init()
    def forward(self, x, labels=None):
        y = self.layer(x)
        return {"loss": torch.nn.functional.binary_cross_entropy_with_logits(y, labels), "logits": y}

data = [{"x": x, "labels": y} for x, y in zip(X, Y)]
args = TrainingArguments(output_dir=sys.argv[1], max_steps=12, per_device_train_batch_size=4, logging_steps=3,
    gradient_accumulation_steps=2, eval_strategy="steps", eval_steps=6, save_steps=6, report_to="none", use_cpu=True,
    disable_tqdm=True, run_name="tiny-run", seed=1)
trainer = Trainer(Net(Config()), args, train_dataset=data, eval_dataset=data, callbacks=[GputopCallback(tags=["t"])])
trainer.train()
print("LOSSES", [(line["step"], line["loss"]) for line in trainer.state.log_history if "loss" in line])
print("EVAL", trainer.evaluate()["eval_loss"])
"""
)


@needs("torch", "transformers", "accelerate")
def test_hugging_face_trainer(home: Home, tmp_path: Path) -> None:
    out = ran(home, TRAINER, str(tmp_path / "out"))
    run, said = the_run(home)
    losses = eval(next(line for line in out.splitlines() if line.startswith("LOSSES")).partition(" ")[2])
    assert [step for step, _ in losses] == [3, 6, 9, 12]
    assert said.series["loss"] == losses
    assert [step for step, _ in said.series["step_s"]] == list(range(1, 13))
    whole = dict(said.series["step_s"])
    assert all(0 <= data < whole[step] for step, data in said.series["phase/data"])
    evaluated = float(next(line for line in out.splitlines() if line.startswith("EVAL")).split()[1])
    assert [step for step, _ in said.series["eval_loss"]] == [6, 12, 12], "two during the training, one after it"
    assert said.series["eval_loss"][-1][1] == evaluated
    assert (run.name, run.state) == ("tiny-run", "finished")
    assert run.config["max_steps"] == 12
    assert run.config["model_config"]["model_type"] == "tiny"
    facts = run.ranks[0].facts
    assert facts["progress"] == {"total_steps": 12, "epochs": 3}
    assert facts["tags"] == ["t"]
    texts = [event["message"] for kind, _, event in said.events if isinstance(event, dict) and "message" in event]
    assert texts == ["checkpoint written at step 6", "checkpoint written at step 12"]


LIGHTNING = (
    TINY
    + """
import os, sys, importlib
pl = importlib.import_module(sys.argv[1])
ModelCheckpoint = importlib.import_module(sys.argv[1] + ".callbacks").ModelCheckpoint
from gputop.adapters.lightning import GputopCallback, GputopLogger
from torch.utils.data import DataLoader, TensorDataset

class Net(pl.LightningModule):
    def __init__(self, width=4):
        super().__init__(); self.save_hyperparameters(); self.layer = torch.nn.Linear(width, 1); self.seen = []
    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.binary_cross_entropy_with_logits(self.layer(x), y)
        self.seen.append(loss.item()); self.log("train/loss", loss)
        return loss
    def validation_step(self, batch, index):
        self.log("val/loss", torch.nn.functional.binary_cross_entropy_with_logits(self.layer(batch[0]), batch[1]))
    def test_step(self, batch, index):
        self.log("test/loss", torch.nn.functional.binary_cross_entropy_with_logits(self.layer(batch[0]), batch[1]))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

devices = int(sys.argv[3])
data = DataLoader(TensorDataset(X, Y), batch_size=4)
net = Net()
trainer = pl.Trainer(max_epochs=2, accelerator="cpu", devices=devices, strategy="ddp" if devices > 1 else "auto",
    accumulate_grad_batches=int(sys.argv[4]), log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False,
    default_root_dir=sys.argv[2], logger=GputopLogger("tiny", project="p"),
    callbacks=[GputopCallback(), ModelCheckpoint(every_n_train_steps=4)], use_distributed_sampler=devices > 1)
trainer.fit(net, data, data)
with open(f"{sys.argv[2]}/losses{trainer.global_rank}", "w") as file:
    file.write(repr(net.seen))
if devices == 1:
    trainer.test(net, data, verbose=False)
"""
)


@needs("torch", "lightning")
def test_lightning_with_accumulated_batches(home: Home, tmp_path: Path) -> None:
    ran(home, LIGHTNING, "lightning.pytorch", str(tmp_path), "1", "2")
    run, said = the_run(home)
    batches = eval((tmp_path / "losses0").read_text())
    means = [sum(batches[index : index + 2]) / 2 for index in range(0, len(batches), 2)]
    assert len(means) == 12
    assert [step for step, _ in said.series["loss"]] == list(range(12)), "the numbers of Lightning's own loggers"
    assert [value for _, value in said.series["loss"]] == pytest.approx(means, rel=1e-6)
    assert set(said.series["train/loss"]) <= set(enumerate(batches[1::2]))
    assert len(said.series["val/loss"]) == 2
    assert len(said.series["test/loss"]) == 1, "what follows the training belongs to its run"
    assert (run.name, run.project, run.state, run.config["width"]) == ("tiny", "p", "finished", 4)
    assert run.ranks[0].facts["progress"] == {"total_steps": 12, "epochs": 2}
    timed = dict(said.series["step_s"])
    assert set(timed) == set(range(12)) - {4, 8}, "after a checkpoint the wait for data cannot be known"
    assert all(0 <= data < timed[step] for step, data in said.series["phase/data"])


@needs("torch", "pytorch_lightning")
def test_the_other_lightning_package(home: Home, tmp_path: Path) -> None:
    ran(home, LIGHTNING + "assert 'lightning.pytorch' not in sys.modules", "pytorch_lightning", str(tmp_path), "1", "1")
    run, said = the_run(home)
    assert [value for _, value in said.series["loss"]] == pytest.approx(eval((tmp_path / "losses0").read_text()), rel=1e-6)
    assert run.state == "finished"


@pytest.mark.real_start("Lightning starts its second process as it finds the first")
@needs("torch", "lightning")
def test_lightning_ranks_are_one_run(home: Home, tmp_path: Path) -> None:
    ran(home, LIGHTNING, "lightning.pytorch", str(tmp_path), "2", "1")
    run = home.only_run()
    assert [(rank.rank, rank.world_size, rank.state) for rank in run.ranks] == [(0, 2, "finished"), (1, 2, "finished")]
    for archive, rank in zip(home.archives(), (0, 1), strict=True):
        seen = eval((tmp_path / f"losses{rank}").read_text())
        assert [value for _, value in read_all(archive).series["loss"]] == pytest.approx(seen, rel=1e-6)


ACCELERATE = (
    TINY
    + """
import sys
from accelerate import Accelerator
from gputop.adapters.accelerate import GputopTracker
tracker = GputopTracker("tiny", name="named")
accelerator = Accelerator(cpu=True, log_with=tracker)
accelerator.init_trackers("ignored for an instance", config={"lr": 0.1})
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(8):
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(X), Y)
    optimizer.zero_grad(); accelerator.backward(loss); optimizer.step()
    # Accelerate hands values to trackers on its main process alone: the others log through the tracker themselves.
    (accelerator if accelerator.is_main_process else tracker).log({"loss": loss, "lr": 0.1}, step=step)
    print("LOSS", accelerator.process_index, repr(loss.item()))
assert not accelerator.is_main_process or accelerator.get_tracker("gputop", unwrap=True).name == "named"
accelerator.end_training()
"""
)


@needs("torch", "accelerate")
def test_accelerate(home: Home) -> None:
    out = ran(home, ACCELERATE)
    run, said = the_run(home)
    assert said.series["loss"] == [(step, float(line.split()[2])) for step, line in enumerate(out.splitlines())]
    assert (run.name, run.project, run.state, dict(run.config)) == ("named", "tiny", "finished", {"lr": 0.1})


@needs("torch", "accelerate")
def test_accelerate_by_its_registered_name(home: Home) -> None:
    script = """
from accelerate import Accelerator
from accelerate.tracking import register_tracker_class
from gputop.adapters.accelerate import GputopTracker
register_tracker_class(GputopTracker)
accelerator = Accelerator(cpu=True, log_with="gputop")
accelerator.init_trackers("project", init_kwargs={"gputop": {"group": "g"}})
accelerator.log({"loss": 1.0})
accelerator.end_training()
"""
    ran(home, script)
    run = home.only_run()
    assert (run.project, run.ranks[0].facts["group"], run.ranks[0].metrics) == ("project", "g", {"loss": 1.0})


@needs("torch", "accelerate")
def test_accelerate_on_two_ranks(home: Home) -> None:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    code, _, err = home.run(ACCELERATE, command=launcher, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    assert code == 0, err
    run = home.only_run()
    assert [(rank.rank, rank.step, rank.state) for rank in run.ranks] == [(0, 7, "finished"), (1, 7, "finished")]


KERAS = """
import numpy as np, keras
from gputop.adapters.keras import GputopCallback
keras.utils.set_random_seed(0)
X = np.random.rand(48, 4).astype("float32"); Y = (X.sum(1, keepdims=True) > 2).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)], name="tiny")
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
class Check(keras.callbacks.Callback):
    seen = []
    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(logs["loss"])
ours = GputopCallback(project="p")
assert keras.callbacks.CallbackList([ours], model=model)._async_train, "Keras may go on while the device works"
model.fit(X, Y, batch_size=8, epochs=2, verbose=0, validation_split=0.25, callbacks=[ours, Check()])
print("LOSSES", Check.seen)
model.fit(X, Y, batch_size=8, epochs=1, verbose=0, callbacks=[ours])
"""


@needs("torch", "keras")
def test_keras_on_torch(home: Home) -> None:
    out = ran(home, KERAS, KERAS_BACKEND="torch")
    first, second = sorted((read_all(archive) for archive in home.archives()), key=lambda said: -len(said.series["loss"]))
    seen = eval(next(line for line in out.splitlines() if line.startswith("LOSSES")).partition(" ")[2])
    assert len(seen) == 10
    assert first.series["loss"] == [*enumerate(seen[:5], 1), (5, seen[4]), *enumerate(seen[5:], 6), (10, seen[9])]
    assert [step for step, _ in first.series["val_loss"]] == [5, 10]
    assert len(second.series["loss"]) == 7, "the second fit is a run of its own"
    facts = [event["value"] for _, _, event in first.events if isinstance(event, dict) and event.get("name") == "progress"]
    assert facts[-1] == {"total_steps": 10, "epochs": 2}


def test_a_run_that_the_script_started_is_joined_and_kept_open(home: Home) -> None:
    script = """
import gputop
from gputop.adapters.joining import Membership
run = gputop.init(name="own")
for _ in range(2):
    member = Membership({"name": "adapter's"})
    assert member.begin() is run is member.run
    member.run.log(loss=1.0)
    member.training_ended(); member.finish()
    assert not run.disabled
"""
    ran(home, script)
    assert home.only_run().name == "own"


def test_a_failing_hook_is_reported_and_the_training_continues(home: Home) -> None:
    script = """
from gputop.tracking.journal.harmless import harmless
@harmless
def hook(trainer):
    return trainer.no_such_name
hook(None); hook(None)
print("went on")
"""
    code, out, err = home.run(script)
    assert (code, out) == (0, "went on\n")
    assert err.count("hook failed, the training continues (AttributeError") == 1


@pytest.mark.real_start("what a start loads")
def test_gputop_alone_loads_no_adapter(home: Home) -> None:
    script = """
import sys, gputop
assert not any(name.startswith("gputop.adapters") for name in sys.modules)
gputop.adapters
print(sorted(name for name in sys.modules if name.partition(".")[0] in ("transformers", "lightning", "accelerate", "keras")))
"""
    assert ran(home, script) == "[]\n"


def test_every_adapter_is_thin() -> None:
    for path in ADAPTERS.glob("*.py"):
        code = [line for line in path.read_text().splitlines() if line.strip()]
        assert len(code) <= 125, path


@needs("torch", "transformers", "accelerate")
def test_an_adapter_and_automatic_tracking_write_no_metric_twice(home: Home, tmp_path: Path) -> None:
    code, out, err = home.run(
        TRAINER, str(tmp_path / "out"), HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", HOME=str(home.state), GPUTOP_AUTO="1"
    )
    assert code == 0, err
    _, said = the_run(home)
    # (The Trainer itself says its epoch again with each evaluation.)
    for name in ("loss", "auto/lr", "step_s", "phase/data", "phase/forward", "phase/backward"):
        steps = [step for step, _ in said.series[name]]
        assert len(set(steps)) == len(steps), name
    losses = eval(next(line for line in out.splitlines() if line.startswith("LOSSES")).partition(" ")[2])
    assert said.series["loss"] == losses, "the Trainer's own"
    assert "auto/loss" not in said.series
    # What the adapter does not know is added, numbered by optimizer steps.
    assert [step for step, _ in said.series["phase/backward"]] == list(range(12))
