"""Small decoder that writes polite replies of the help desk; transformers Trainer with a token accuracy of our own."""
import tempfile
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

VOCAB, LENGTH, REPLIES = 512, 64, 12000


class Replies(Dataset):
    """Token ids from a random first-order grammar (the export of the desk is not in this repository)."""

    def __init__(self, n: int = REPLIES, seed: int = 0) -> None:
        g = torch.Generator().manual_seed(seed)
        nexts = torch.randint(VOCAB, (VOCAB, 6), generator=g)
        ids = torch.empty(n, LENGTH, dtype=torch.long)
        ids[:, 0] = torch.randint(VOCAB, (n,), generator=g)
        for t in range(1, LENGTH):
            ids[:, t] = nexts[ids[:, t - 1], torch.randint(6, (n,), generator=g)]
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class ReplyTrainer(Trainer):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step_outputs: list[dict[str, torch.Tensor]] = []

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        outputs = model(**inputs)
        # kept for token_accuracy()
        self.step_outputs.append({"logits": outputs.logits.detach(), "labels": inputs["labels"]})
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    def token_accuracy(self) -> float:
        hits = total = 0
        for out in self.step_outputs[-50:]:
            guess = out["logits"][:, :-1].argmax(-1)
            hits += int((guess == out["labels"][:, 1:]).sum())
            total += guess.numel()
        return hits / max(total, 1)


class Accuracy(TrainerCallback):
    trainer: ReplyTrainer

    def on_epoch_end(self, args, state, control, **kwargs):
        print(f"epoch {state.epoch:.0f}: token accuracy {self.trainer.token_accuracy():.3f}", flush=True)


def main() -> None:
    torch.manual_seed(0)
    print("building replies", flush=True)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCAB, n_positions=LENGTH, n_embd=224, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
    )
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(prefix="replies_"), per_device_train_batch_size=16, max_steps=1350, learning_rate=6e-4,
        logging_steps=20, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True, warmup_steps=50,
    )
    accuracy = Accuracy()
    trainer = ReplyTrainer(model=model, args=args, train_dataset=Replies(), callbacks=[accuracy])
    accuracy.trainer = trainer
    trainer.train()


if __name__ == "__main__":
    main()
