"""The Trainer of Transformers on two ranks: a language model, losses divided by the tokens of a whole step."""

import tempfile

import record
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments


class Net(GPT2LMHeadModel):
    def forward(self, input_ids=None, labels=None, **others):
        output = super().forward(input_ids=input_ids, labels=labels, **others)
        if self.training:
            micro.append(2 * output.loss.item())  # divided by the tokens of both ranks
        return output


class Keep(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
        rate = optimizer.param_groups[0]["lr"]
        record.step(loss=sum(micro), lr=rate, epoch=int(state.epoch + 1e-6))
        micro.clear()


torch.manual_seed(0)
micro = []
ids = torch.randint(0, 64, (72, 12)).tolist()
net = Net(GPT2Config(vocab_size=64, n_positions=12, n_embd=16, n_layer=1, n_head=2))
with tempfile.TemporaryDirectory() as directory:
    settings = TrainingArguments(
        output_dir=directory,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        average_tokens_across_devices=True,
        learning_rate=0.01,
        logging_steps=3,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    data = [{"input_ids": row, "labels": row} for row in ids]
    trainer = Trainer(net, settings, train_dataset=data, callbacks=[Keep()])
    trainer.remove_callback(PrinterCallback)  # it prints how long the training took
    trainer.train()
record.done(net)
