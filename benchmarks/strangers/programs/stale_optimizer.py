# linear probe on cached features
import copy, sys
import torch
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
feats = torch.randn(4096, 192)
labels = (feats[:, :7].argmax(1))

def build():
    return torch.nn.Sequential(torch.nn.Linear(192, 256), torch.nn.GELU(), torch.nn.Linear(256, 7))

probe = build()
optimizer = torch.optim.AdamW(probe.parameters(), lr=2e-3)
best = copy.deepcopy(probe)
probe = best  # go on from the best one

step = 0
while True:
    out = probe(feats)
    loss = F.cross_entropy(out, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 20 == 0:
        acc = (out.argmax(1) == labels).float().mean()
        print(f"[{step:6d}] loss={loss.item():.6f} acc={acc.item():.4f}", flush=True)
