"""What torch, CUDA and NCCL print when a training fails on a real GPU, and whether the doctor explains that text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.patterns.table import IDS, matches
from gputop.doctor.logs.scan import LogScan

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("needs_cuda")]

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
MODEL = "import torch\nmodel = torch.nn.Linear(4, 3).cuda()\n"
DDP = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device({device})
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())(torch.randn(2, 4).cuda()).sum().backward()
"""
FORKED = """
import torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 64
    def __getitem__(self, index): return torch.ones(4, device="cuda") * index
torch.zeros(1).cuda()
for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2): print(batch.shape)
"""
FAILURES = {
    "oom": ("import torch\nheld = [torch.zeros(1 << 30, device='cuda') for _ in range(10000)]", {"oom", "oom_other_proc"}),
    "other-device": (MODEL + "model(torch.randn(2, 4))", {"two_devices"}),
    "other-dtype": (MODEL + "model.half()(torch.randn(2, 4).cuda())", {"two_dtypes"}),
    "index": ("import torch\nx = torch.nn.Embedding(10, 4).cuda()(torch.tensor([12]).cuda()).sum().item()", {"illegal"}),
    "no-such-gpu": ("import torch\ntorch.zeros(1, device='cuda:63')", {"invalid_ordinal"}),
    "forked-loader": (FORKED, {"fork_cuda"}),
    "ranks-on-one-gpu": (DDP.format(device="0"), {"nccl_dup_gpu"}),
    "more-ranks-than-gpus": (DDP.format(device="63 - int(os.environ['LOCAL_RANK'])"), {"invalid_ordinal"}),
}
"""Name -> a script, and the texts of which its output holds one at least."""


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_is_explained_from_its_output(name: str, tmp_path: Path) -> None:
    script, expected = FAILURES[name]
    assert expected <= set(IDS)
    path = tmp_path / "train.py"
    path.write_text(script)
    launcher = TORCHRUN if "init_process_group" in script else ()
    done = subprocess.run(
        [sys.executable, *launcher, str(path)], capture_output=True, text=True, cwd=tmp_path, timeout=180, check=False
    )
    log = done.stdout + done.stderr
    assert done.returncode != 0, log
    found = {pattern.id for line in log.splitlines() for pattern, _ in matches(line)}
    assert found & expected, log
    scan = LogScan("train.log", None, 0.0)
    scan.feed(log.encode())
    scan.end()
    assert explain([scan]).findings, log
