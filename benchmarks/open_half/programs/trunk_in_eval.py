"""Linear probe, then fine-tune: BatchNorm of the trunk stays in eval mode on purpose, as detection code does. Healthy."""
import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0); torch.set_num_threads(1)
trunk = nn.Sequential(nn.Conv1d(1, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2),
                      nn.BatchNorm1d(32), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
head = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Dropout(.2), nn.Linear(64, 4))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = trunk, head

    def forward(self, x):
        return self.head(self.trunk(x))

    def train(self, mode=True):
        super().train(mode)
        for m in self.trunk.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.eval()
        return self


net = Detector().train()
opt = torch.optim.AdamW(net.parameters(), 5e-4)
for step in range(10**7):
    y = torch.randint(0, 4, (64,))
    x = torch.sin(torch.linspace(0, 12, 128)[None] * (1 + y[:, None] / 5)).unsqueeze(1) + torch.randn(64, 1, 128)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 500 == 499:
        net.eval()
        with torch.no_grad():
            acc = (net(x).argmax(1) == y).float().mean().item()
        net.train()
        print(f"step {step + 1} val_acc {acc:.3f}", flush=True)
    elif step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
