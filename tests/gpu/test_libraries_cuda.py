"""Losses of public trainers on a real GPU, in mixed precision, held against a record of what each backward was given."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.tracking.kit import Home, home, read_all

assert home

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("needs_cuda")]

RUN = (sys.executable, "-m", "gputop", "run", "--name", "mine", "--", sys.executable)
RECORD = '''
import atexit, json, os
import torch

CODE = """
parts, steps, scalers = [], [], []
backward, scale, scaled_step = torch.autograd.backward, torch.amp.GradScaler.scale, torch.amp.GradScaler.step


def recorded(tensors, *args, **kwargs):
    loss = tensors[0] if isinstance(tensors, (list, tuple)) else tensors
    parts.append(float(loss.detach().float()) / (scalers[-1].get_scale() if scalers else 1.0))
    return backward(tensors, *args, **kwargs)


def close(*_):
    if parts:
        steps.append(sum(parts))
        parts.clear()


def scaling(self, outputs):
    scalers[:] = [self] if self.is_enabled() else []
    return scale(self, outputs)


def step_of(self, *args, **kwargs):
    done = scaled_step(self, *args, **kwargs)
    close()  # also where the scaler skipped the step
    return done


torch.autograd.backward, torch.amp.GradScaler.scale, torch.amp.GradScaler.step = recorded, scaling, step_of
"""
kept = {"torch": torch}
# As if it were a file of torch, so that the line that calls backward is the trainer's, for gputop too.
exec(compile(CODE, os.path.join(os.path.dirname(torch.__file__), "record_of_backwards.py"), "exec"), kept)
torch.optim.Optimizer  # the module is loaded
import torch.optim.optimizer as base
base.register_optimizer_step_post_hook(lambda optimizer, args, kwargs: None if kept["scalers"] else kept["close"]())
atexit.register(lambda: open(os.environ["RECORD"], "w").write(json.dumps(kept["steps"])))
torch.manual_seed(0)
'''
TEXTS = """
class Texts(torch.utils.data.Dataset):
    def __len__(self): return 240
    def __getitem__(self, i):
        ids = (torch.arange(32) * 3 + i) % 100
        return {"input_ids": ids, "labels": ids}
"""
TRAINER = (
    TEXTS
    + """
from tempfile import mkdtemp
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, default_data_collator
net = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=64, n_layer=2, n_head=2))
settings = TrainingArguments(mkdtemp(), num_train_epochs=2, per_device_train_batch_size=4, gradient_accumulation_steps=3,
    logging_steps=7, save_strategy="no", eval_strategy="epoch", report_to=[], PRECISION=True, dataloader_num_workers=2)
Trainer(net, settings, train_dataset=Texts(), eval_dataset=Texts(), data_collator=default_data_collator).train()
"""
)
LIGHTNING = """
import lightning as L
from lightning.pytorch.plugins.environments import LightningEnvironment
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64))
    def training_step(self, batch, index):
        loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[0])
        self.log("train_loss", loss)
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(640, 64)), batch_size=8)
# Where mpi4py is installed, Lightning would start MPI.
L.Trainer(max_epochs=2, precision="PRECISION", accelerator="gpu", devices=1, plugins=LightningEnvironment(),
    accumulate_grad_batches=2, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).fit(Lit(), data)
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="PRECISION", gradient_accumulation_steps=2)
net = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(800, 64)), batch_size=8)
net, optimizer, data = accelerator.prepare(net, optimizer, data)
for epoch in range(2):
    for (inputs,) in data:
        with accelerator.accumulate(net):
            loss = net(inputs).square().mean()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
"""
PLAIN = """
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).cuda()
WRAP
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
for step in range(150):
    inputs = torch.randn(32, 64, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = (net(inputs) - inputs).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
END
"""
PROCESS_GROUP = """
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
store = dist.TCPStore("127.0.0.1", 0, 1, True)
dist.init_process_group("nccl", store=store, rank=0, world_size=1, device_id=torch.device("cuda:0"))
"""
GRAPHED = """
net = torch.cuda.make_graphed_callables(net, (torch.randn(32, 64, device="cuda"),))
"""
CASES = {
    "trainer-fp16": ("transformers", TRAINER.replace("PRECISION", "fp16")),
    "trainer-bf16": ("transformers", TRAINER.replace("PRECISION", "bf16")),
    "lightning-16-mixed": ("lightning", LIGHTNING.replace("PRECISION", "16-mixed")),
    "lightning-bf16-true": ("lightning", LIGHTNING.replace("PRECISION", "bf16-true")),
    "accelerate-fp16": ("accelerate", ACCELERATE.replace("PRECISION", "fp16")),
    "fused-adamw": ("torch", PLAIN.replace("WRAP", "").replace("END", "")),
    "graphed-callable": ("torch", PLAIN.replace("WRAP", GRAPHED).replace("END", "")),
    "compiled-with-graphs": (
        "triton",
        PLAIN.replace("WRAP", 'net = torch.compile(net, mode="reduce-overhead")').replace("END", ""),
    ),
    "ddp-nccl": (
        "torch",
        PLAIN.replace("WRAP", PROCESS_GROUP + "net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[0])").replace(
            "END", "dist.destroy_process_group()"
        ),
    ),
    "fsdp2-nccl": (
        "torch",
        PLAIN.replace("WRAP", PROCESS_GROUP + "from torch.distributed.fsdp import fully_shard\nfully_shard(net)").replace(
            "END", "dist.destroy_process_group()"
        ),
    ),
}
"""Name -> the module that it needs, and the script."""


@pytest.mark.parametrize("name", CASES)
def test_each_step_has_the_loss_that_its_backwards_were_given(home: Home, tmp_path: Path, name: str) -> None:
    module, script = CASES[name]
    pytest.importorskip(module)
    record = tmp_path / "record.json"
    code, _, err = home.run(RECORD + script, command=RUN, RECORD=str(record), HF_HUB_OFFLINE="1")
    assert code == 0, err
    assert "gputop" not in err
    truth = json.loads(record.read_text())
    assert len(truth) >= 40
    (archive,) = home.archives()
    series = read_all(archive).series
    found = series["loss"]
    assert [step for step, _ in found] == list(range(len(truth))) or [step for step, _ in found] == list(
        range(1, len(truth) + 1)
    )
    assert [value for _, value in found] == pytest.approx(truth, rel=2e-3)
    assert series["memory_allocated_bytes"]
