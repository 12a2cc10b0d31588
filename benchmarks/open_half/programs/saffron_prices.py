import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--batch_size", type=int, default=128)
parser.add_argument("--minutes", type=float, default=4)
args = parser.parse_args()
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Prices(Dataset):
    """90 days of quotes at 4 markets -> next day's price of a gram of saffron."""

    def __init__(self, length=20000):
        g = torch.Generator().manual_seed(7)
        self.quotes = torch.randn(length, 360, generator=g)
        self.price = self.quotes[:, ::36].mean(1, keepdim=True) + 0.05 * torch.randn(length, 1, generator=g)

    def __getitem__(self, index):
        return self.quotes[index], self.price[index]

    def __len__(self):
        return len(self.price)


class Model(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(360, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, x):
        return self.fc(x)


model = Model(args.hidden)
if torch.cuda.device_count() > 1:
    print("Let's use", torch.cuda.device_count(), "GPUs!")
model = nn.DataParallel(model)
model.to(device)
loader = DataLoader(Prices(), batch_size=args.batch_size, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
start, epoch = time.time(), 0
while time.time() - start < args.minutes * 60:
    epoch += 1
    running = 0.0
    for i, (quotes, price) in enumerate(loader):
        output = model(quotes.to(device))
        loss = nn.functional.mse_loss(output, price.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        if i % 50 == 49:
            print("[%d, %5d] loss: %.4f" % (epoch, i + 1, running / 50), flush=True)
            running = 0.0
