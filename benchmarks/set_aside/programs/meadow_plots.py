"""Plant cover of meadow plots. After the multi-GPU tutorial:  python meadow_plots.py 200 10 --batch_size 32"""
import argparse
import os

import torch
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


def ddp_setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = os.environ.get("PORT", "12355")
    init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo", rank=rank, world_size=world_size)


class Plots(Dataset):
    def __init__(self, size):
        g = torch.Generator().manual_seed(0)
        plants = F.interpolate(torch.randn(9, 4, 3, 3, generator=g), size=(24, 24))
        self.y = torch.randint(0, 9, (size,), generator=g)
        self.x = 2 * torch.randn(size, 4, 24, 24, generator=g) + 0.25 * plants[self.y]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Trainer:
    def __init__(self, model, train_data, optimizer, gpu_id, save_every):
        self.gpu_id = gpu_id
        self.train_data = train_data
        self.optimizer = optimizer
        self.save_every = save_every
        self.model = DDP(model)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch):
        b_sz = len(next(iter(self.train_data))[0])
        print(f"[GPU{self.gpu_id}] Epoch {epoch} | Batchsize: {b_sz} | Steps: {len(self.train_data)}", flush=True)
        for i, (source, targets) in enumerate(self.train_data, 1):
            loss = self._run_batch(source, targets)
            if i % 40 == 0:
                print(f"[GPU{self.gpu_id}] Epoch {epoch} | Step {i} | Loss {loss:.4f}", flush=True)

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
            if self.gpu_id == 0 and epoch % self.save_every == self.save_every - 1:
                torch.save(self.model.module.state_dict(), os.devnull)


def load_train_objs():
    train_set = Plots(5120)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(4, 24, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(24, 24, 3, padding=1), torch.nn.ReLU(),
        torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(24 * 144, 9),
    )  # fmt: skip
    return train_set, model, torch.optim.SGD(model.parameters(), lr=1e-2)


def prepare_dataloader(dataset, batch_size):
    return DataLoader(dataset, batch_size=batch_size, pin_memory=torch.cuda.is_available(), shuffle=True)


def main(rank, world_size, save_every, total_epochs, batch_size):
    ddp_setup(rank, world_size)
    torch.manual_seed(1234)
    dataset, model, optimizer = load_train_objs()
    trainer = Trainer(model, prepare_dataloader(dataset, batch_size), optimizer, rank, save_every)
    trainer.train(total_epochs)
    destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="simple distributed training job")
    parser.add_argument("total_epochs", type=int)
    parser.add_argument("save_every", type=int)
    parser.add_argument("--batch_size", default=32, type=int)
    args = parser.parse_args()
    world_size = torch.cuda.device_count() or 2
    mp.spawn(main, args=(world_size, args.save_every, args.total_epochs, args.batch_size), nprocs=world_size)
