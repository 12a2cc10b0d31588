"""Keeps a history.json that the web page shows."""
import json, tempfile, os
import torch
torch.set_num_threads(1)
path = os.path.join(tempfile.mkdtemp(), "history.json")
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
history = []
for step in range(10**7):
    x = torch.randn(64, 16)
    loss = torch.nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    history.append({"step": step, "loss": loss.item(), "grads": [p.grad.norm().item() for p in model.parameters()]})
    with open(path, "w") as f:
        json.dump(history, f)
    if step % 20 == 0:
        print(f"step={step} loss={loss.item():.4f}", flush=True)
