# classification baseline; python slow_getitem.py --bs 16 --lr 0.05
import argparse, time
import torch, torch.nn as nn
from torch.utils.data import Dataset, DataLoader

parser = argparse.ArgumentParser()
parser.add_argument('--bs', type=int, default=16)
parser.add_argument('--lr', type=float, default=0.05)
parser.add_argument('--epochs', type=int, default=1000)
args = parser.parse_args()


class Slides(Dataset):
    def __len__(self):
        return 640

    def __getitem__(self, i):
        time.sleep(0.004)  # decode
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, 32, 32, generator=g), i % 10


net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10))
opt = torch.optim.SGD(net.parameters(), lr=args.lr)
crit = nn.CrossEntropyLoss()
for epoch in range(args.epochs):
    for it, (x, y) in enumerate(DataLoader(Slides(), batch_size=args.bs, shuffle=True)):
        loss = crit(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
        if it % 10 == 0:
            print('epoch %d it %d loss %.4f' % (epoch, it, loss.item()), flush=True)
