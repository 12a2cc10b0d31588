import time
import torch
import torch.nn as nn

torch.manual_seed(2)
vocab, dim = 200, 128
table = torch.randint(vocab, (vocab,))
emb, rnn, out = nn.Embedding(vocab, dim), nn.LSTM(dim, dim, batch_first=True), nn.Linear(dim, vocab)
params = [*emb.parameters(), *rnn.parameters(), *out.parameters()]
optimizer = torch.optim.Adam(params, lr=2e-3)


def sample(n):
    s = torch.randint(vocab, (n, 1))
    rows = [s]
    for _ in range(24):
        rows.append(table[rows[-1]])
    return torch.cat(rows, 1)


def ce(ids):
    return nn.functional.cross_entropy(out(rnn(emb(ids[:, :-1]))[0]).flatten(0, 1), ids[:, 1:].flatten())


for epoch in range(1, 10**5):
    t0 = time.time()
    for _ in range(25):
        loss = ce(sample(32)); optimizer.zero_grad(); loss.backward(); optimizer.step()
    t1 = time.time()
    with torch.no_grad():
        val = sum(ce(sample(4)).item() for _ in range(700)) / 700
    t2 = time.time()
    print("-" * 80)
    print(f"| end of epoch {epoch:3d} | train time: {t1 - t0:5.2f}s | valid time: {t2 - t1:5.2f}s | train loss {loss.item():5.2f} | valid loss {val:5.2f}", flush=True)
