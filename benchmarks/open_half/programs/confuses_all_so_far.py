# intents of a help desk, 24 classes
import random
import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0); random.seed(0); torch.set_num_threads(1)
V, C, L = 4000, 24, 30
key = torch.randint(0, C, (V,))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 128)
        self.gru = nn.GRU(128, 192, batch_first=True)
        self.out = nn.Linear(192, C)

    def forward(self, x):
        return self.out(self.gru(self.emb(x))[1][0])


def batches(n=64):
    x = torch.randint(0, V, (n, L))
    y = F.one_hot(key[x], C).sum(1).argmax(1)
    return x, y


def macro(pred, gold):
    score = 0.0
    for c in range(C):
        tp = sum(1 for p, g in zip(pred, gold) if p == c and g == c)
        fp = sum(1 for p, g in zip(pred, gold) if p == c and g != c)
        fn = sum(1 for p, g in zip(pred, gold) if p != c and g == c)
        score += 2 * tp / max(1, 2 * tp + fp + fn)
    return score / C


def main():
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), 2e-3)
    all_pred, all_gold = [], []
    for it in range(10**6):
        x, y = batches()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        all_pred += logits.argmax(1).tolist()
        all_gold += y.tolist()
        f = macro(all_pred, all_gold)
        if it % 25 == 0:
            print(f"it {it} loss {loss.item():.3f} f1 {f:.3f}", flush=True)


main()
