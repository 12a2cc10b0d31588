"""Contact maps of proteins. The next shard of pair features is made by a process while the network trains on this one."""
import multiprocessing as mp
import time

import torch
from torch import nn


def featurize(shard, out):
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(shard)
    made = []
    for _ in range(160):
        angle = torch.randn(48, generator=g).mul(0.6).cumsum(0)
        position = torch.stack([angle.cos().cumsum(0), angle.sin().cumsum(0)], 1)
        distance = torch.cdist(position, position)
        pair = torch.stack([distance + 1.5 * torch.randn(48, 48, generator=g), (angle[:, None] - angle[None]).cos()])
        made.append((pair.numpy(), (distance < 3).float().numpy()))
    out.put(made)


class Contacts(nn.Module):
    def __init__(self, width=40, depth=5):
        super().__init__()
        self.first = nn.Conv2d(2, width, 3, padding=1)
        self.mid = nn.ModuleList(nn.Conv2d(width, width, 3, padding=2 ** (i % 3), dilation=2 ** (i % 3)) for i in range(depth))
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        h = self.first(x)
        for conv in self.mid:
            h = h + torch.relu(conv(h))
        return self.last(h).squeeze(1)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Contacts()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    queue = mp.Queue()
    featurize(0, queue)
    shard = queue.get()
    start = time.time()
    for n in range(1, 60):
        maker = mp.Process(target=featurize, args=(n, queue))
        maker.start()
        for i in range(0, len(shard), 8):
            x = torch.stack([torch.from_numpy(p) for p, _ in shard[i:i + 8]])
            y = torch.stack([torch.from_numpy(c) for _, c in shard[i:i + 8]])
            loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % 40 == 0:
                print(f"shard {n - 1} batch {i // 8:2d} bce {loss.item():.4f} {time.time() - start:.1f} s", flush=True)
        maker.join()
        shard = queue.get()


if __name__ == "__main__":
    main()
