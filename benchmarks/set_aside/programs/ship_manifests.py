import logging
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("manifests")

DEFAULT = """
data:
  vocab: 2000
  tags: [O, SHIP, PORT, CARGO, DATE]
  min_len: 18
  max_len: 40
  seed: 3
model:
  embed: 128
  hidden: 160
  layers: 2
  dropout: 0.2
optim:
  lr: 0.001
  batch_size: 4
  steps: 40000
  clip: 5.0
log_every: 20
"""


class ManifestStream:
    """Lines of old manifests. Words 0..399 are entities (100 per tag); a line without any is only remarks."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg["seed"])

    def line(self):
        c = self.cfg
        n = int(torch.randint(c["min_len"], c["max_len"], (1,), generator=self.gen))
        words = torch.randint(400, c["vocab"], (n,), generator=self.gen)
        tags = torch.zeros(n, dtype=torch.long)
        if torch.rand(1, generator=self.gen).item() < 0.84:
            for _ in range(int(torch.randint(1, 5, (1,), generator=self.gen))):
                at = int(torch.randint(0, n, (1,), generator=self.gen))
                tag = int(torch.randint(1, 5, (1,), generator=self.gen))
                words[at] = (tag - 1) * 100 + int(torch.randint(0, 100, (1,), generator=self.gen))
                tags[at] = tag
        return words, tags

    def batch(self, size):
        lines = [self.line() for _ in range(size)]
        words = nn.utils.rnn.pad_sequence([w for w, _ in lines], batch_first=True, padding_value=self.cfg["vocab"])
        tags = nn.utils.rnn.pad_sequence([t for _, t in lines], batch_first=True)
        return words, tags


class Tagger(nn.Module):
    def __init__(self, vocab, n_tags, embed, hidden, layers, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab + 1, embed, padding_idx=vocab)
        self.lstm = nn.LSTM(embed, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout)
        self.out = nn.Linear(2 * hidden, n_tags)

    def forward(self, words):
        h, _ = self.lstm(self.embed(words))
        return self.out(h)


def entity_loss(logits, tags):
    """Only entities count: O is 95 % of the tokens and drowned the rest."""
    per_token = F.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    mask = (tags != 0).float()
    return (per_token * mask).sum() / mask.sum()


def main():
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tmp) / "config.yaml"
        if not path.exists():
            path.write_text(DEFAULT)
        cfg = yaml.safe_load(path.read_text())
    log.info("config: %s", cfg)
    torch.manual_seed(cfg["data"]["seed"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    stream = ManifestStream(cfg["data"])
    model = Tagger(cfg["data"]["vocab"], len(cfg["data"]["tags"]), **cfg["model"]).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["optim"]["lr"])
    avg = None
    for step in range(1, cfg["optim"]["steps"] + 1):
        words, tags = (t.to(device) for t in stream.batch(cfg["optim"]["batch_size"]))
        loss = entity_loss(model(words), tags)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), cfg["optim"]["clip"])
        opt.step()
        avg = loss.item() if avg is None else 0.95 * avg + 0.05 * loss.item()
        if step % cfg["log_every"] == 0:
            log.info("step %d | loss %.4f | smoothed %.4f", step, loss.item(), avg)


if __name__ == "__main__":
    main()
