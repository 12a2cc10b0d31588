"""A model of LitGPT trained by Fabric, as its finetuning scripts do: accumulation under no_backward_sync.

Needs: litgpt, lightning
Loss: sum
"""

import record  # noqa: F401
import torch
from lightning.fabric import Fabric
from litgpt.model import GPT, Config
from litgpt.utils import chunked_cross_entropy

fabric = Fabric(accelerator="cpu", devices=1)
fabric.seed_everything(0)
config = Config(block_size=16, vocab_size=64, padded_vocab_size=64, n_layer=2, n_head=2, n_embd=16)
model = GPT(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.randint(0, 64, (96, 16)), batch_size=8, shuffle=True))
accumulated = 3
for epoch in range(4):
    for number, ids in enumerate(loader, 1):
        is_accumulating = number % accumulated != 0
        with fabric.no_backward_sync(model, enabled=is_accumulating):
            logits = model(ids)
            loss = chunked_cross_entropy(logits[..., :-1, :], ids[..., 1:])
            fabric.backward(loss / accumulated)
        if not is_accumulating:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, loss.item())
