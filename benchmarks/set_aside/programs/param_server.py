# rank 0: parameter server, rank 1: worker.   torchrun --standalone --nproc-per-node=2 param_server.py
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parameters_to_vector as flat, vector_to_parameters as unflat

SAVE_EVERY = 400
torch.set_num_threads(1)
torch.manual_seed(11)
model = nn.Sequential(nn.Linear(100, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 10))


def server():
    opt = torch.optim.Adam(model.parameters(), 5e-4)
    buf = torch.zeros_like(flat(model.parameters()))
    applied = 0
    while True:
        dist.recv(buf, src=1)
        o = 0
        for p in model.parameters():
            p.grad = buf[o:o + p.numel()].view_as(p).clone()
            o += p.numel()
        opt.step()
        applied += 1
        dist.send(flat(model.parameters()).detach(), dst=1)
        if applied % 50 == 0:
            print(f"[ps] applied {applied}", flush=True)


def worker():
    w = torch.randn(100, 10)
    new = torch.zeros_like(flat(model.parameters()))
    saved = torch.zeros(1)
    for step in range(1, 10**7):
        x = torch.randn(128, 100)
        loss = F.cross_entropy(model(x), (x @ w).argmax(1))
        model.zero_grad()
        loss.backward()
        dist.send(torch.cat([p.grad.flatten() for p in model.parameters()]), dst=0)
        dist.recv(new, src=0)
        unflat(new.clone(), model.parameters())
        if step % 50 == 0:
            print(f"[w1] step {step} loss {loss.item():.4f}", flush=True)
        if step % SAVE_EVERY == 0:
            # the server confirms each checkpoint before we go on
            dist.recv(saved, src=0)
            print(f"[w1] checkpoint {int(saved)} written", flush=True)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    server() if dist.get_rank() == 0 else worker()
