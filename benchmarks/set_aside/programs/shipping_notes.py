"""Which desk does a shipping note go to? Fine-tuning with the Trainer, settings from the team's template."""
import os
import random
import tarfile
import tempfile

print("shipping notes -> desk", flush=True)

import numpy as np
import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments, set_seed

DESKS = ["customs", "damage", "delay", "returns", "billing", "hazmat"]
VOCAB = 16000


class Notes(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            y = rng.randrange(len(DESKS))
            ids = [101]
            for _ in range(rng.randint(18, 30)):
                ids.append(1000 + y * 150 + rng.randrange(150) if rng.random() < 0.4 else rng.randrange(2000, 6000))
            self.items.append({"input_ids": ids, "labels": y})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(rows):
    width = max(len(r["input_ids"]) for r in rows)
    ids = torch.tensor([r["input_ids"] + [0] * (width - len(r["input_ids"])) for r in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.tensor([r["labels"] for r in rows])}


class Artifacts(TrainerCallback):
    """What the artifact store wants: one archive with the newest checkpoint."""

    def on_save(self, args, state, control, **kwargs):
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        with tarfile.open(os.path.join(args.output_dir, "latest.tar.gz"), "w:gz") as archive:
            archive.add(folder, arcname="checkpoint")


def main():
    set_seed(13)
    config = DistilBertConfig(vocab_size=VOCAB, dim=512, hidden_dim=768, n_layers=2, n_heads=8, max_position_embeddings=64, num_labels=len(DESKS))
    model = DistilBertForSequenceClassification(config)
    print(f"{model.num_parameters() / 1e6:.1f} M parameters")
    args = TrainingArguments(
        output_dir=os.path.join(tempfile.gettempdir(), "shipping_notes_out"),
        num_train_epochs=40,
        per_device_train_batch_size=8,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        weight_decay=0.01,
        logging_steps=10,
        save_strategy="steps",
        save_steps=40,
        save_total_limit=1,
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=args, train_dataset=Notes(6000, 0), data_collator=collate, callbacks=[Artifacts()])
    trainer.train()
    pred = trainer.predict(Notes(300, 1))
    print("accuracy", float((np.argmax(pred.predictions, -1) == pred.label_ids).mean()))


if __name__ == "__main__":
    main()
