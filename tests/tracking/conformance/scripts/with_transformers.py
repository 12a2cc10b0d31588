"""The Trainer of Transformers with gradient accumulation and a linear schedule."""

import tempfile

import record
import torch
from transformers import PretrainedConfig, PreTrainedModel, PrinterCallback, Trainer, TrainerCallback, TrainingArguments


class Config(PretrainedConfig):
    model_type = "tiny"


class Net(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 1)
        self.post_init()

    def forward(self, x, labels=None):
        logits = self.layer(x)
        loss = torch.nn.functional.mse_loss(logits, labels)
        if self.training:
            micro.append(loss.item())
        return {"loss": loss, "logits": logits}


class Keep(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, optimizer=None, **kwargs):
        rate = optimizer.param_groups[0]["lr"]
        record.step(loss=sum(micro) / len(micro), lr=rate, epoch=int(state.epoch + 1e-6))
        micro.clear()


torch.manual_seed(0)
micro = []
x = torch.randn(64, 4)
data = [{"x": row, "labels": row.sum().unsqueeze(0)} for row in x]
net = Net(Config())
with tempfile.TemporaryDirectory() as directory:
    settings = TrainingArguments(
        output_dir=directory,
        num_train_epochs=3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=4,
        learning_rate=0.05,
        logging_steps=4,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(net, settings, train_dataset=data, callbacks=[Keep()])
    trainer.remove_callback(PrinterCallback)  # it prints how long the training took
    trainer.train()
record.done(net)
