"""Three stages of a pipeline on two cards, by hand: card 0 has the big embedding and one block, card 1 the rest. Microbatches, 1F1B-ish."""
import torch, torch.distributed as dist
import torch.nn as nn, torch.nn.functional as F

dist.init_process_group("gloo")
r = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(r)
D, V, T, MB, M = 128, 2000, 48, 8, 4
enc = lambda: nn.TransformerEncoderLayer(D, 4, 4 * D, batch_first=True, dropout=0.0)
part = nn.Sequential(nn.Embedding(V, D), enc()) if r == 0 else nn.Sequential(enc(), enc(), enc(), nn.Linear(D, V))
opt = torch.optim.AdamW(part.parameters(), 3e-4)
for it in range(10**6):
    g = torch.Generator().manual_seed(it)
    ids = [(torch.randint(0, V, (MB, 1), generator=g) + 3 * torch.arange(T)) % V for _ in range(M)]
    if r == 0:
        outs = []
        for x in ids:
            h = part(x)
            dist.send(h.detach(), 1)
            outs.append(h)
        for h in outs:
            grad = torch.empty_like(h)
            dist.recv(grad, 1)
            h.backward(grad)
    else:
        total = 0.0
        for x in ids:
            h = torch.empty(MB, T, D)
            dist.recv(h, 0)
            h.requires_grad_()
            loss = F.cross_entropy(part(h).flatten(0, 1), ((x + 3) % V).flatten()) / M
            loss.backward()
            total += loss.item()
            dist.send(h.grad, 0)
    opt.step()
    opt.zero_grad()
    if r == 1 and it % 5 == 0:
        print(f"it {it} loss {total:.4f}", flush=True)
