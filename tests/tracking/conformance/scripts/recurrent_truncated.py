"""A recurrent network, truncated backpropagation with a carried state."""

import record
import torch

torch.manual_seed(0)
rnn, head = torch.nn.GRU(3, 8, batch_first=True), torch.nn.Linear(8, 3)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
series = torch.sin(torch.arange(0, 60, 0.1)).repeat(3, 1).T.unsqueeze(0)
for epoch in range(4):
    state = None
    for start in range(0, 500, 50):
        out, state = rnn(series[:, start : start + 50], state)
        state = state.detach()
        loss = torch.nn.functional.mse_loss(head(out), series[:, start + 1 : start + 51])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_([*rnn.parameters(), *head.parameters()], 0.5)
        optimizer.step()
        record.step(loss=loss.item(), lr=scheduler.get_last_lr()[0])
    scheduler.step()
    print(f"| epoch {epoch + 1} | loss {loss.item():.4f} |")
record.done(rnn, head)
