"""Line recognition. After each epoch, the character error rate of the validation set, by a prefix beam search in Python."""
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
T, V = 40, 16
targets = torch.randint(1, V, (1200, 10))
lines = nn.functional.one_hot(targets.repeat_interleave(4, 1), V).float() + 0.8 * torch.randn(1200, T, V)
train, valid = TensorDataset(lines[:1000], targets[:1000]), TensorDataset(lines[1000:], targets[1000:])
net = nn.Sequential(nn.Linear(V, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, V))
opt = torch.optim.Adam(net.parameters(), 1e-3)


def beam_search(rows, width=6):
    beams = {(): (0.0, -math.inf)}
    for row in rows:
        following = {}
        for prefix, (blank, other) in beams.items():
            for symbol, logp in enumerate(row):
                total = max(blank, other) + logp
                if symbol == 0:
                    key, place = prefix, 0
                elif prefix and prefix[-1] == symbol:
                    key, place, total = prefix, 1, other + logp
                else:
                    key, place = (*prefix, symbol), 1
                old = following.get(key, (-math.inf, -math.inf))
                following[key] = (max(old[0], total), old[1]) if place == 0 else (old[0], max(old[1], total))
        beams = dict(sorted(following.items(), key=lambda item: -max(item[1]))[:width])
    return max(beams, key=lambda key: max(beams[key]))


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


for epoch in range(10**6):
    net.train()
    for x, y in DataLoader(train, batch_size=32, shuffle=True):
        logp = net(x).log_softmax(-1)
        loss = nn.functional.ctc_loss(logp.transpose(0, 1), y, [T] * len(x), [10] * len(x))
        opt.zero_grad(); loss.backward(); opt.step()
    net.eval()
    wrong = total = 0
    with torch.no_grad():
        for x, y in DataLoader(valid, batch_size=100):
            for rows, target in zip(net(x).log_softmax(-1).tolist(), y.tolist()):
                wrong += distance(beam_search(rows), target)
                total += len(target)
    print(f"epoch {epoch} ctc {loss.item():.3f} val_cer {wrong / total:.3f}", flush=True)
