"""A Brain of SpeechBrain: fit with a validation, gradients accumulated over two batches.

Needs: speechbrain
Loss: sum
"""

import record  # noqa: F401
import speechbrain
import torch


class Brain(speechbrain.Brain):
    def compute_forward(self, batch, stage):
        return self.modules.net(batch[0])

    def compute_objectives(self, predictions, batch, stage):
        return torch.nn.functional.mse_loss(predictions, batch[1])

    def on_stage_end(self, stage, stage_loss, epoch=None):
        print(stage, stage_loss, epoch)


data = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randn(96, 2))
brain = Brain(
    modules={"net": torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))},
    opt_class=lambda weights: torch.optim.Adam(weights, lr=0.01),
    run_opts={"device": "cpu", "grad_accumulation_factor": 2},
)
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
brain.fit(range(3), loader, torch.utils.data.DataLoader(data, batch_size=32), progressbar=False)
