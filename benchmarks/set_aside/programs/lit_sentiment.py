"""Fine-tune a small BERT for sentence sentiment with Lightning."""
import os
import tempfile

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from transformers import BertConfig, BertModel

VOCAB, MAXLEN = 2000, 48


def pretrained_dir():
    """our in-house checkpoint; here: a small one written to a temporary folder"""
    d = os.path.join(tempfile.gettempdir(), "bert-mini-inhouse")
    if not os.path.exists(os.path.join(d, "config.json")):
        cfg = BertConfig(vocab_size=VOCAB, hidden_size=160, num_hidden_layers=4, num_attention_heads=4,
                         intermediate_size=480, max_position_embeddings=64,
                         hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
        BertModel(cfg).save_pretrained(d)
    return d


def reviews(n=2400):
    g = torch.Generator().manual_seed(11)
    ids = torch.randint(10, VOCAB, (n, MAXLEN), generator=g)
    y = torch.randint(0, 2, (n,), generator=g)
    for i in range(n):
        k = 10
        pos = torch.randperm(MAXLEN - 1, generator=g)[:k] + 1
        word = torch.randint(0, 60, (k,), generator=g) + (100 if y[i] else 400)
        ids[i, pos] = word
    ids[:, 0] = 1
    return TensorDataset(ids, y)


class SentimentModule(L.LightningModule):
    def __init__(self, path, lr=3e-4):
        super().__init__()
        self.save_hyperparameters()
        self.bert = BertModel.from_pretrained(path)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(self.bert.config.hidden_size, 2)

    def forward(self, ids):
        h = self.bert(input_ids=ids).last_hidden_state[:, 0]
        return self.classifier(self.dropout(h))

    def _step(self, batch):
        ids, y = batch
        logits = self(ids)
        return nn.functional.cross_entropy(logits, y), (logits.argmax(-1) == y).float().mean()

    def training_step(self, batch, idx):
        loss, acc = self._step(batch)
        if idx % 10 == 0:
            print(f"epoch {self.current_epoch} batch {idx} train_loss {loss.item():.4f} train_acc {acc.item():.3f}", flush=True)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, idx):
        loss, acc = self._step(batch)
        self.log_dict({"val_loss": loss, "val_acc": acc})

    def on_validation_epoch_end(self):
        m = self.trainer.callback_metrics
        if not self.trainer.sanity_checking:
            print(f"epoch {self.current_epoch} val_loss {m['val_loss'].item():.4f} val_acc {m['val_acc'].item():.3f}", flush=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.LinearLR(opt, 0.1, 1.0, total_iters=60)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


if __name__ == "__main__":
    L.seed_everything(5)
    train, val = random_split(reviews(), [2000, 400])
    trainer = L.Trainer(max_epochs=60, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, gradient_clip_val=1.0, num_sanity_val_steps=0)
    trainer.fit(SentimentModule(pretrained_dir()),
                DataLoader(train, 32, shuffle=True, num_workers=1, persistent_workers=True),
                DataLoader(val, 100, num_workers=1, persistent_workers=True))
