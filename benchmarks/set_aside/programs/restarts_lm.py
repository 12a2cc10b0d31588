# char transformer with warm restarts (SGDR); the loss jumps at each restart and ends lower
import torch, torch.nn as nn, torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

torch.set_num_threads(1)
torch.manual_seed(1337)
block_size, batch_size, n_embd = 48, 16, 128
words = "the a my old red ship king sea dog ran saw took lost found under over by with house storm night road".split()
g = torch.Generator().manual_seed(5)
text = " ".join(words[i] for i in torch.randint(len(words), (20000,), generator=g))
stoi = {c: i for i, c in enumerate(sorted(set(text)))}
data = torch.tensor([stoi[c] for c in text])
split = int(0.9 * len(data))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(len(stoi), n_embd), nn.Embedding(block_size, n_embd)
        layer = nn.TransformerEncoderLayer(n_embd, 4, 4 * n_embd, 0.0, batch_first=True, norm_first=True)
        self.tf = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(n_embd, len(stoi))
        self.mask = nn.Transformer.generate_square_subsequent_mask(block_size)

    def forward(self, x):
        return self.head(self.tf(self.tok(x) + self.pos.weight, mask=self.mask, is_causal=True))


def batch(part):
    ix = torch.randint(len(part) - block_size - 1, (batch_size,))
    return torch.stack([part[i:i + block_size] for i in ix]), torch.stack([part[i + 1:i + block_size + 1] for i in ix])


model = LM()
opt = torch.optim.AdamW(model.parameters(), 3e-3)
sched = CosineAnnealingWarmRestarts(opt, T_0=200, eta_min=1e-5)
for it in range(10**7):
    x, y = batch(data[:split])
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if it % 20 == 0:
        print(f"iter {it}: loss {loss.item():.4f}, lr {sched.get_last_lr()[0]:.1e}", flush=True)
    if it % 200 == 199:
        model.eval()
        with torch.no_grad():
            val = sum(F.cross_entropy(model(a).flatten(0, 1), b.flatten()).item() for a, b in (batch(data[split:]) for _ in range(10))) / 10
        print(f"iter {it}: val loss {val:.4f}", flush=True)
        model.train()
