"""Several terms added into one loss."""

import record
import torch

torch.manual_seed(0)
encoder, decoder = torch.nn.Linear(8, 4), torch.nn.Linear(2, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for step in range(50):
    x = torch.randn(32, 8)
    mean, log_variance = encoder(x).chunk(2, 1)
    z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
    reconstruction = torch.nn.functional.mse_loss(decoder(z), x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    loss = reconstruction + divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.01)
    if step % 10 == 0:
        print(f"[{step}] {loss.item() / len(x):.3f}")
record.done(encoder, decoder)
