"""Click model; the AUC over everything seen so far, after each ten batches"""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
w = torch.randn(30)
net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
all_scores, all_labels = [], []


def auc(scores, labels):
    order = sorted(range(len(scores)), key=lambda i: scores[i])
    rank_sum, pos = 0, 0
    for place, i in enumerate(order):
        if labels[i]:
            rank_sum += place + 1
            pos += 1
    neg = len(labels) - pos
    return (rank_sum - pos * (pos + 1) / 2) / max(1, pos * neg)


for step in range(1, 10**7):
    x = torch.randn(256, 30)
    y = (x @ w + torch.randn(256) > 0).float()
    logit = net(x).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    all_scores += logit.tolist()
    all_labels += y.tolist()
    if step % 10 == 0:
        print(f"step {step} bce {loss.item():.4f} auc {auc(all_scores, all_labels):.4f}", flush=True)
