"""Denoiser. The validation keeps every prediction for the plots at the end (and its graph: nobody wrote no_grad)."""
import torch
import torch.nn as nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Conv1d(1, 64, 9, padding=4), nn.ReLU(), nn.Conv1d(64, 64, 9, padding=4), nn.ReLU(), nn.Conv1d(64, 1, 9, padding=4))
opt = torch.optim.Adam(net.parameters(), 1e-3)
predictions = []


def signals(n):
    t = torch.linspace(0, 30, 512)
    return torch.sin(t[None] * (.5 + torch.rand(n, 1))).unsqueeze(1)


for epoch in range(10**6):
    for it in range(30):
        clean = signals(8)
        loss = (net(clean + .3 * torch.randn_like(clean)) - clean).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        if it % 10 == 9:
            print(f"epoch {epoch} it {it + 1} loss {loss.item():.5f}", flush=True)
    net.eval()
    clean = signals(96)
    predictions.append(net(clean + .3 * torch.randn_like(clean)))
    print(f"epoch {epoch} val_mse {(predictions[-1] - clean).pow(2).mean().item():.5f}", flush=True)
    net.train()
