"""A critic that steps five times for each step of the generator."""

import record
import torch

torch.manual_seed(0)
generator, critic = torch.nn.Linear(4, 2), torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer_c = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
optimizer_g = torch.optim.RMSprop(generator.parameters(), lr=1e-3)
for step in range(48):
    if step % 6 < 5:
        loss_c = critic(generator(torch.randn(8, 4)).detach()).mean() - critic(torch.randn(8, 2) + 1).mean()
        optimizer_c.zero_grad()
        loss_c.backward()
        optimizer_c.step()
        for parameter in critic.parameters():
            parameter.data.clamp_(-0.1, 0.1)
        record.step(loss_c=loss_c.item(), lr=1e-3)
    else:
        loss_g = -critic(generator(torch.randn(8, 4))).mean()
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
        record.step(loss_g=loss_g.item(), lr=1e-3)
record.done(generator, critic)
print("done")
