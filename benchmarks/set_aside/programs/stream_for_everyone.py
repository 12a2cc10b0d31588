import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Events(IterableDataset):
    """Collision events, one after the other, as they come from the trigger."""

    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        while True:
            n = 24
            p = torch.randn(n, 4, generator=g)
            signal = torch.rand(1, generator=g) < 0.5
            if signal:
                p[:4] += torch.tensor([2.0, -1.0, 0.5, 1.0])
            yield p[torch.randperm(n, generator=g)], signal.float()[0]


class DeepSets(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(4, 160), nn.ReLU(), nn.Linear(160, 160), nn.ReLU())
        self.rho = nn.Sequential(nn.Linear(160, 160), nn.ReLU(), nn.Linear(160, 1))

    def forward(self, x):
        return self.rho(self.phi(x).mean(1))[:, 0]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = DDP(DeepSets())
    opt = torch.optim.Adam(net.parameters(), 5e-4)
    step = 0
    # DistributedSampler cannot be used with an IterableDataset
    for x, y in DataLoader(Events(seed=1234), batch_size=32):
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
        if step % 25 == 0:
            print(f"rank={rank} step={step} bce={loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
