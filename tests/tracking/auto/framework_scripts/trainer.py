"""Hugging Face Trainer: gradient accumulation, evaluations and checkpoints."""

import sys

import torch
from said import say
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

torch.manual_seed(0)
X = torch.randn(48, 4)
Y = (X.sum(1, keepdim=True) > 0).float()


class Config(PretrainedConfig):
    model_type = "tiny"


class Net(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 1)
        self.post_init()

    def forward(self, x, labels=None):
        y = self.layer(x)
        return {"loss": torch.nn.functional.binary_cross_entropy_with_logits(y, labels), "logits": y}


micro = []


class Noting(Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if model.training:
            micro.append(float(loss))
        return loss


data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
settings = TrainingArguments(
    output_dir=sys.argv[1],
    max_steps=12,
    per_device_train_batch_size=4,
    logging_steps=4,
    gradient_accumulation_steps=2,
    eval_strategy="steps",
    eval_steps=6,
    save_steps=6,
    report_to="none",
    use_cpu=True,
    disable_tqdm=True,
    seed=1,
)
net = Net(Config())
trainer = Noting(net, settings, train_dataset=data, eval_dataset=data)
trainer.train()
logged = {
    name: [entry[name] for entry in trainer.state.log_history if name in entry]
    for name in ("eval_loss", "grad_norm", "train_loss")
}
say(trainer.state.global_step, [net], loss=[(a + b) / 2 for a, b in zip(micro[::2], micro[1::2], strict=True)], **logged)
