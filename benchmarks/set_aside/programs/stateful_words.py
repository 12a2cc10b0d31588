# word-level LSTM after the pytorch/examples script: bptt over contiguous text, lr / 4 when validation gets no better
import math, time
import torch
import torch.nn as nn

torch.manual_seed(1111)
V, E, H, BPTT, BS = 120, 96, 128, 35, 20
succ = torch.randint(0, V, (V, 5), generator=torch.Generator().manual_seed(2))
def text(n, seed):
    g = torch.Generator().manual_seed(seed)
    pick, out, w = torch.randint(0, 5, (n,), generator=g).tolist(), [], 0
    table = succ.tolist()
    for p in pick:
        w = table[w][p]; out.append(w)
    return torch.tensor(out)
def batchify(x, bs):
    return x[: len(x) // bs * bs].view(bs, -1).t().contiguous()
train, val = batchify(text(35000, 0), BS), batchify(text(4000, 1), 10)

class RNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.enc, self.rnn, self.dec = nn.Dropout(0.2), nn.Embedding(V, E), nn.LSTM(E, H, 2, dropout=0.2), nn.Linear(H, V)
    def forward(self, x, h):
        o, h = self.rnn(self.drop(self.enc(x)), h)
        return self.dec(self.drop(o)).flatten(0, 1), h

net, crit, lr, best = RNN(), nn.CrossEntropyLoss(), 20.0, None
detach = lambda h: tuple(t.detach() for t in h)
for epoch in range(1, 400):
    net.train()
    h, total, start, t0 = None, 0.0, time.time(), time.time()
    for b, i in enumerate(range(0, len(train) - 1, BPTT)):
        n = min(BPTT, len(train) - 1 - i)
        out, h = net(train[i:i + n], None if h is None else detach(h))
        loss = crit(out, train[i + 1:i + 1 + n].flatten())
        net.zero_grad(); loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.25)
        with torch.no_grad():
            for p in net.parameters(): p.add_(p.grad, alpha=-lr)
        total += loss.item()
        if b % 10 == 0 and b:
            cur = total / 10; total = 0.0
            print('| epoch {:3d} | {:5d}/{:5d} batches | lr {:02.2f} | ms/batch {:5.2f} | loss {:5.2f} | ppl {:8.2f}'.format(epoch, b, len(train) // BPTT, lr, (time.time() - t0) * 100, cur, math.exp(cur)), flush=True)
            t0 = time.time()
    net.eval()
    with torch.no_grad():
        v = crit(net(val[:-1], None)[0], val[1:].flatten()).item()
    print('| end of epoch {:3d} | time: {:5.2f}s | valid loss {:5.2f} | valid ppl {:8.2f}'.format(epoch, time.time() - start, v, math.exp(v)), flush=True)
    if best is None or v < best: best = v
    else: lr = max(lr / 4, 0.3)
