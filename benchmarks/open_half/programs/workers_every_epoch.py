"""Few-shot font recognition: tiny epochs (one per episode), a loader made anew for each of them, spawn because of h5py."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Glyphs(Dataset):
    def __init__(self, episode):
        g = torch.Generator().manual_seed(episode)
        self.proto = torch.rand(5, 400, generator=torch.Generator().manual_seed(0))
        self.y = torch.randint(0, 5, (96,), generator=g)
        self.noise = torch.randn(96, 400, generator=g)

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return self.proto[self.y[i]] + 0.8 * self.noise[i], self.y[i]


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(400, 300), nn.ReLU(), nn.Linear(300, 5))
    opt = torch.optim.Adam(net.parameters(), 3e-4)
    for episode in range(10**5):
        loader = DataLoader(Glyphs(episode), 32, num_workers=2, multiprocessing_context="spawn")
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"episode {episode} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
