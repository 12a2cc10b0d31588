# python thaws_one_more.py  -- fine-tune a pretrained encoder, fastai's freeze_to() by hand
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(42)
torch.set_num_threads(1)
w = 320
body = nn.Sequential(*[nn.Sequential(nn.Linear(w, w), nn.BatchNorm1d(w), nn.ReLU()) for _ in range(9)])
head = nn.Linear(w, 5)
model = nn.Sequential(body, head)
X = torch.randn(6400, w)
Y = (X[:, :5] + .1 * torch.randn(6400, 5)).argmax(1)
dl = DataLoader(TensorDataset(X, Y), 256, shuffle=True)


def freeze_to(n):
    for i, layer in enumerate(body):
        for p in layer.parameters():
            p.requires_grad_(i >= n)
    return [p for p in model.parameters() if p.requires_grad]


print("epoch     train_loss  accuracy", flush=True)
epoch = 0
for n in list(range(9, -1, -1)):
    opt = torch.optim.Adam(freeze_to(n), 1e-3 / (10 - n))
    for _ in range(18 if n else 10**6):
        total = right = 0
        for x, y in dl:
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            loss.backward()
            opt.step()
            opt.zero_grad()
            total += loss.item() * len(x)
            right += (out.argmax(1) == y).sum().item()
        print(f"{epoch:<9d} {total / 6400:.6f}    {right / 6400:.4f}", flush=True)
        epoch += 1
