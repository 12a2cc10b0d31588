"""Truncated BPTT, or so the comment says: the summary goes on to the next chunk, and with it the whole past."""
import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(2)
encoder = nn.GRU(16, 64, batch_first=True)
encoder.requires_grad_(False)  # pretrained
mixer, out = nn.Linear(64, 64), nn.Linear(64, 16)
opt = torch.optim.SGD(out.parameters(), 1e-3)
song = torch.randn(8, 100_000, 16).cumsum(1).sin()
memory = torch.zeros(8, 64)
for n, at in enumerate(range(0, 90_000, 20)):
    with torch.no_grad():
        h, _ = encoder(song[:, at:at + 20])
    memory = torch.tanh(mixer(h[:, -1]) + memory)
    loss = (out(h + memory[:, None]) - song[:, at + 1:at + 21]).pow(2).mean()
    opt.zero_grad()
    loss.backward(retain_graph=True)  # else: "Trying to backward through the graph a second time"
    opt.step()
    if n % 10 == 0:
        print(f"chunk {n} mse {loss.item():.4f}", flush=True)
