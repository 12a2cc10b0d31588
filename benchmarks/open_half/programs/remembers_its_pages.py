"""Line segmentation of scans. Every page is unpacked once and kept (lru_cache), so the first epoch is the slow one."""
import functools
import zlib

import torch
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Pages(Dataset):
    def __init__(self, n=200):
        raw = (torch.rand(420, 400) > 0.97).to(torch.uint8).numpy().tobytes()
        self.packed = [zlib.compress(raw, 6) for _ in range(8)]
        self.n = n

    def __len__(self):
        return self.n

    @functools.lru_cache(maxsize=None)  # noqa: B019
    def page(self, i):
        ink = torch.frombuffer(bytearray(zlib.decompress(self.packed[i % 8])), dtype=torch.uint8).view(1, 1, 420, 400).float()
        return ink[0], torch.nn.functional.max_pool2d(ink, (3, 31), 1, (1, 15))[0]

    def __getitem__(self, i):
        x, y = self.page(i)
        top = int(torch.randint(0, 370, ()))
        return x[:, top : top + 48, :256], y[:, top : top + 48, :256]


net = torch.nn.Sequential(torch.nn.Conv2d(1, 8, (3, 15), padding=(1, 7)), torch.nn.ReLU(), torch.nn.Conv2d(8, 1, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
loader = DataLoader(Pages(), 4, shuffle=True)
for epoch in range(10**5):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(f"epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.4f}", flush=True)
