"""Predicts where vessels will be from AIS tracks. torchrun, one rank per device."""
import logging
import os
import struct
import tempfile
import zlib

import torch
import torch.distributed as dist
import yaml
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

CONFIG = yaml.safe_load("""
data: {tracks: 16000, past: 40, future: 12}
model: {dim: 96, heads: 4, layers: 3}
train: {batch: 48, lr: 0.0007, epochs: 40}
logging: {every: 1, image_size: 384, bins: 64}
""")
log = logging.getLogger("ais")


class Tracks(Dataset):
    def __init__(self, tracks, past, future):
        g = torch.Generator().manual_seed(8)
        n = past + future
        turn = 0.06 * torch.randn(tracks, 1, generator=g) + 0.02 * torch.randn(tracks, n, generator=g)
        heading = 6.28 * torch.rand(tracks, 1, generator=g) + turn.cumsum(1)
        speed = 0.03 + 0.05 * torch.rand(tracks, 1, generator=g)
        xy = torch.stack([speed * heading.cos(), speed * heading.sin()], -1).cumsum(1)
        self.xy, self.past = xy - xy[:, past - 1 : past], past

    def __len__(self):
        return len(self.xy)

    def __getitem__(self, i):
        return self.xy[i, : self.past], self.xy[i, self.past :]


class TrackModel(nn.Module):
    def __init__(self, past, future, dim, heads, layers):
        super().__init__()
        self.inp = nn.Linear(2, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(past, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, 2 * future)

    def forward(self, x):
        h = self.enc(self.inp(x) + self.pos)
        return self.out(h[:, -1]).unflatten(1, (-1, 2))


class Dashboard:
    """Histograms of the weights and a picture of the predicted tracks for the web page of the project."""

    def __init__(self, folder, image_size, bins):
        self.folder, self.size, self.bins = folder, image_size, bins

    def histograms(self, model):
        with open(os.path.join(self.folder, "hist.csv"), "w") as f:
            for name, p in model.named_parameters():
                for kind, t in (("w", p.detach()), ("g", p.grad)):
                    counts = torch.histc(t.float(), self.bins)
                    f.write(f"{name},{kind}," + ",".join(f"{c:.0f}" for c in counts.tolist()) + "\n")

    def picture(self, past, future, pred):
        s = self.size
        rows = [bytearray(b"\xff" * (3 * s)) for _ in range(s)]
        for points, color in ((past, b"\x99\x99\x99"), (future, b"\x00\xa0\x00"), (pred, b"\xd0\x00\x00")):
            for track in points.tolist():
                for (x0, y0), (x1, y1) in zip(track, track[1:]):
                    for k in range(36):
                        a = k / 36
                        col = int((x0 + (x1 - x0) * a + 3) / 6 * s)
                        row = int((y0 + (y1 - y0) * a + 3) / 6 * s)
                        if 0 <= row < s and 0 <= col < s:
                            rows[row][3 * col : 3 * col + 3] = color
        raw = b"".join(b"\x00" + bytes(r) for r in rows)

        def chunk(kind, data):
            body = kind + data
            return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

        with open(os.path.join(self.folder, "tracks.png"), "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", s, s, 8, 2, 0, 0, 0)))
            f.write(chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.ERROR, format="%(asctime)s %(message)s")
    torch.manual_seed(0)
    d, t, lo = CONFIG["data"], CONFIG["train"], CONFIG["logging"]
    data = Tracks(**d)
    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(data, t["batch"], sampler=sampler, drop_last=True)
    model = DistributedDataParallel(TrackModel(d["past"], d["future"], **CONFIG["model"]))
    opt = torch.optim.AdamW(model.parameters(), lr=t["lr"])
    with tempfile.TemporaryDirectory(prefix="ais-") as folder:
        board = Dashboard(folder, lo["image_size"], lo["bins"])
        step = 0
        for epoch in range(t["epochs"]):
            sampler.set_epoch(epoch)
            for past, future in loader:
                pred = model(past)
                loss = (pred - future).norm(dim=-1).mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                if rank == 0 and step % lo["every"] == 0:
                    board.histograms(model)
                    board.picture(past, future, pred.detach())
                if step % 20 == 0:
                    log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
                step += 1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
