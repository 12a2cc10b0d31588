# curriculum: sequence length grows 16 -> 32 -> ... -> 256, batch shrinks so that tokens per step stay the same
import torch, torch.nn as nn

TOKENS, EACH = 4096, 60
net = nn.GRU(32, 96, batch_first=True)
emb, out = nn.Embedding(64, 32), nn.Linear(96, 64)
params = [*net.parameters(), *emb.parameters(), *out.parameters()]
opt = torch.optim.Adam(params, 2e-3)
step = 0
for length in [16, 24, 32, 48, 64, 96, 128, 192] + [256] * 10000:
    for _ in range(EACH):
        b = TOKENS // length
        start = torch.randint(0, 64, (b, 1))
        x = (start + torch.arange(length + 1) * (1 + start % 3)) % 64
        h, _ = net(emb(x[:, :-1]))
        loss = nn.functional.cross_entropy(out(h).reshape(-1, 64), x[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 10 == 0:
            print(f"step={step} seqlen={length} bs={b} loss={loss.item():.4f}", flush=True)
