# usage: python one_card_of_the_box.py   (settings in box.yaml)
import time
import torch, yaml
import torch.nn as nn
import torch.nn.functional as F
from pathlib import Path

cfg = yaml.safe_load((Path(__file__).parent / "box.yaml").read_text())
torch.set_num_threads(1)

class Block(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.a, self.b, self.n = nn.Linear(w, 2 * w), nn.Linear(2 * w, w), nn.LayerNorm(w)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.n(x))))

model = nn.Sequential(nn.Linear(32, cfg["width"]), *[Block(cfg["width"]) for _ in range(cfg["depth"])], nn.Linear(cfg["width"], 8))
optim = torch.optim.AdamW(model.parameters(), float(cfg["lr"]))
W = torch.randn(32, 8)
print(f"gpus: {cfg['gpus']}, global batch {cfg['batch'] * cfg['gpus']}", flush=True)
t = time.time()
for step in range(1_000_000):
    x = torch.randn(cfg["batch"], 32)
    loss = F.cross_entropy(model(x), (x @ W).argmax(-1))
    optim.zero_grad()
    loss.backward()
    optim.step()
    if step % 50 == 0:
        print(f"[{time.time() - t:6.1f}s] step {step} loss {loss:.4f}", flush=True)
