"""A GAN: two optimizers in each iteration, three backwards."""

import record
import torch

torch.manual_seed(0)
generator = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
discriminator = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.LeakyReLU(0.2), torch.nn.Linear(8, 1))
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3)
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
criterion = torch.nn.BCEWithLogitsLoss()
real, fake = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(40):
    batch = torch.randn(16, 2) * 0.5 + 2
    made = generator(torch.randn(16, 4))
    optimizer_d.zero_grad()
    loss_real = criterion(discriminator(batch), real)
    loss_real.backward()
    loss_fake = criterion(discriminator(made.detach()), fake)
    loss_fake.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = criterion(discriminator(made), real)
    loss_g.backward()
    optimizer_g.step()
    record.step(loss_real=loss_real.item(), loss_fake=loss_fake.item(), loss_g=loss_g.item(), lr=2e-3)
    if step % 10 == 0:
        print(f"D {loss_real.item() + loss_fake.item():.3f} G {loss_g.item():.3f}")
record.done(generator, discriminator)
