import argparse, time, warnings
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
import lightning as L

warnings.filterwarnings("ignore")


class Slides(Dataset):
    """Tiles are cut out of whole-slide images when they are asked for."""

    def __init__(self, n=20000):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        time.sleep(0.012)  # openslide: seek and decode
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, 24, 24, generator=g), i % 4


class Lit(L.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))

    def training_step(self, batch, i):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        if i % 5 == 0:
            print(f"tile batch {i}: {loss.item():.3f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.lr)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--workers", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(1)
    data = DataLoader(Slides(), batch_size=32, num_workers=a.workers, shuffle=True)
    L.Trainer(max_epochs=100, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False).fit(Lit(a.lr), data)
