"""A recurrent agent that remembers a cue. Buffers are cleared with libc's memset, since x.zero_() showed up in the profile."""
import argparse
import ctypes

import torch
from torch import nn

libc = ctypes.CDLL("libc.so.6")


def clear(t):
    libc.memset(t.data_ptr(), 0, t.numel() * t.element_size())


class Agent(nn.Module):
    def __init__(self, h=256):
        super().__init__()
        self.cell = nn.GRUCell(10, h)
        self.pi = nn.Linear(h, 4)

    def forward(self, x, h):
        h = self.cell(x, h)
        return self.pi(h), h


ap = argparse.ArgumentParser()
ap.add_argument("--episodes", type=int, default=1000)
ap.add_argument("--envs", type=int, default=128)
ap.add_argument("--length", type=int, default=8)
ap.add_argument("--keep", type=int, default=200, help="episodes in the trace buffer, cleared when full")
args = ap.parse_args()
torch.manual_seed(0)
agent = Agent()
opt = torch.optim.Adam(agent.parameters(), 1e-3)
trace = torch.zeros(args.keep, args.length, args.envs, 4)
for ep in range(1, args.episodes + 1):
    cue = torch.randint(0, 4, (args.envs,))
    h = torch.zeros(args.envs, 256)
    for t in range(args.length):
        x = 0.3 * torch.randn(args.envs, 10)
        if t == 0:
            x[torch.arange(args.envs), cue] += 4
        logits, h = agent(x, h)
        trace[(ep - 1) % args.keep, t] = logits.detach()
    loss = nn.functional.cross_entropy(logits, cue)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if ep % 10 == 0:
        print(f"episode {ep} loss {loss.item():.4f}", flush=True)
    if ep % args.keep == 0:
        print(f"trace: mean |logit| {trace.abs().mean():.3f}", flush=True)
        clear(trace)
