"""Sorts letters of tenants (repairs, rent, neighbours, notice) with a small BERT from our model store, fine-tuned in Lightning."""
import tempfile

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertModel

LABELS = ["repairs", "rent", "neighbours", "notice"]
VOCAB, LENGTH = 2000, 64


def model_store():
    """The in-house model, as the language team hands it over: a folder with config.json and safetensors."""
    folder = tempfile.mkdtemp(prefix="store_")
    config = BertConfig(
        vocab_size=VOCAB, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=384,
        max_position_embeddings=LENGTH, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def letters(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(len(LABELS), (n,), generator=g)
    x = torch.randint(200, VOCAB, (n, LENGTH), generator=g)
    # a few words of each letter belong to its subject
    for _ in range(5):
        at = torch.randint(1, LENGTH, (n,), generator=g)
        x[torch.arange(n), at] = 10 + y * 40 + torch.randint(40, (n,), generator=g)
    x[:, 0] = 1
    flip = torch.rand(n, generator=g) < 0.1
    y[flip] = torch.randint(len(LABELS), (int(flip.sum()),), generator=g)
    return TensorDataset(x, y)


class LetterSorter(L.LightningModule):
    def __init__(self, store, lr=2e-4):
        super().__init__()
        self.bert = BertModel.from_pretrained(store)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(128, len(LABELS)))
        self.lr = lr

    def forward(self, ids):
        return self.head(self.bert(input_ids=ids).last_hidden_state.mean(1))

    def training_step(self, batch, batch_idx):
        ids, y = batch
        loss = nn.functional.cross_entropy(self(ids), y)
        self.log("loss", loss, prog_bar=True)
        if batch_idx % 25 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx} loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, _):
        ids, y = batch
        out = self(ids)
        self.log("val_loss", nn.functional.cross_entropy(out, y))
        self.log("val_acc", (out.argmax(1) == y).float().mean())

    def on_validation_epoch_end(self):
        m = self.trainer.callback_metrics
        if "val_loss" in m:
            print(f"--- val_loss {m['val_loss']:.4f} val_acc {m['val_acc']:.3f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01)


if __name__ == "__main__":
    L.seed_everything(1)
    print("loading letters", flush=True)
    train = DataLoader(letters(16000, 1), batch_size=32, shuffle=True, drop_last=True)
    val = DataLoader(letters(640, 2), batch_size=64)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=20, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        default_root_dir=tempfile.mkdtemp(prefix="letters_"),
    )
    trainer.fit(LetterSorter(model_store()), train, val)
