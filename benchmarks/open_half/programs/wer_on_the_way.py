"""CTC on toy utterances. Word error rate of the batch in every step; own implementation (editdistance did not build)."""
import random
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)
rng = random.Random(3)
torch.manual_seed(3)
T, V = 60, 12


def utterance(n):
    words = [[rng.randint(1, V - 2) for _ in range(rng.randint(1, 3))] for _ in range(n)]
    ids = [c for w in words for c in (*w, V - 1)]
    return torch.nn.functional.one_hot(torch.tensor((ids * T)[:T]), V).float() + 0.3 * torch.randn(T, V), torch.tensor(ids[:24] + [V - 1] * (24 - len(ids[:24])))


data = [utterance(rng.randint(6, 9)) for _ in range(512)]


def levenshtein(a, b):
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        table[i][0] = i
    for j in range(len(b) + 1):
        table[0][j] = j
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + cost)
    return table[-1][-1]


def greedy(logits):
    out, last = [], None
    for c in logits.argmax(-1).tolist():
        if c != last and c != 0:
            out.append(c)
        last = c
    return out


net = nn.Sequential(nn.Linear(V, 48), nn.ReLU(), nn.Linear(48, V))
opt = torch.optim.Adam(net.parameters(), 1e-3)
n = 0
for epoch in range(10**6):
    for x, y in DataLoader(data, batch_size=32, shuffle=True):
        logits = net(x)
        loss = nn.functional.ctc_loss(logits.log_softmax(-1).transpose(0, 1), y, [T] * len(x), [24] * len(x))
        opt.zero_grad()
        loss.backward()
        opt.step()
        wrong = sum(levenshtein(greedy(l), t.tolist()) for l, t in zip(logits.detach(), y))
        n += 1
        if n % 10 == 0:
            print(f"epoch {epoch} step {n} ctc {loss.item():.3f} er {wrong / y.numel():.3f}", flush=True)
