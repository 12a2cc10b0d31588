"""Nightly evaluation of the bolt inspection models: each checkpoint on each camera and noise level. No training."""
import itertools
import logging
import tempfile
from pathlib import Path

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
log = logging.getLogger("bolt-eval")


class Inspector(nn.Module):
    """Scores how much a picture differs from its reconstruction by the fitted subspace, on top of fixed filters."""

    def __init__(self, filters=32, rank=24):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, filters, 5, 2, 2), nn.ReLU(), nn.Conv2d(filters, 2 * filters, 3, 2, 1), nn.ReLU(),
                                  nn.Conv2d(2 * filters, 2 * filters, 3, 1, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.register_buffer("mean", torch.zeros(32 * filters))
        self.register_buffer("basis", torch.zeros(32 * filters, rank))

    @torch.no_grad()
    def fit(self, good):
        f = self.conv(good)
        self.mean.copy_(f.mean(0))
        _, _, v = torch.pca_lowrank(f - self.mean, q=self.basis.shape[1])
        self.basis.copy_(v)

    def forward(self, x):
        f = self.conv(x) - self.mean
        return (f - f @ self.basis @ self.basis.T).norm(dim=1)


def bolts(n, noise, shift, seed):
    g = torch.Generator().manual_seed(seed)
    r = torch.arange(96) - 48
    d = (r[:, None] ** 2 + r[None] ** 2).float().sqrt()
    bad = torch.rand(n, generator=g) < 0.3
    x = ((d < 36) & (d > 14)).float().repeat(n, 1, 1) + noise * torch.randn(n, 96, 96, generator=g)
    for i in bad.nonzero().flatten().tolist():
        a = int(torch.randint(20, 68, (1,), generator=g))
        x[i, a:a + 5] -= 0.8
    return torch.roll(x, shift, 2).unsqueeze(1), bad


def auroc(score, bad):
    pos, neg = score[bad], score[~bad]
    return (pos[:, None] > neg[None]).float().mean().item()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        for seed in range(4):
            torch.manual_seed(seed)
            model = Inspector()
            x, bad = bolts(160, 0.1, 0, 1000 + seed)
            model.fit(x[~bad])
            torch.save(model.state_dict(), Path(tmp) / f"line{seed}.pt")
        log.info("4 checkpoints, device %s", "cuda" if torch.cuda.is_available() else "cpu")
        table = []
        for rep, camera, noise in itertools.product(range(12), range(5), (0.05, 0.1, 0.2, 0.35, 0.5)):
            for path in sorted(Path(tmp).glob("*.pt")):
                model = Inspector()
                model.load_state_dict(torch.load(path))
                model.eval()
                scores, labels = [], []
                with torch.inference_mode():
                    for b in range(6):
                        x, bad = bolts(32, noise, 2 * camera, rep * 1000 + camera * 10 + b)
                        scores.append(model(x))
                        labels.append(bad)
                value = auroc(torch.cat(scores), torch.cat(labels))
                table.append((path.stem, camera, noise, value))
                log.info("run %d %s camera %d noise %.2f: AUROC %.4f", rep, path.stem, camera, noise, value)
        log.info("mean AUROC %.4f over %d settings", sum(row[-1] for row in table) / len(table), len(table))


if __name__ == "__main__":
    main()
