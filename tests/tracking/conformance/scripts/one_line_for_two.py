"""An actor and a critic that one function updates: two optimizers on one line."""

import record
import torch

torch.manual_seed(0)
actor, critic = torch.nn.Linear(4, 2), torch.nn.Linear(4, 1)
optimizer_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
optimizer_c = torch.optim.Adam(critic.parameters(), lr=1e-3)


def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


batches = torch.utils.data.DataLoader(torch.randn(192, 4), batch_size=4)
for states in batches:
    returns = states.sum(1)
    critic_loss = update(optimizer_c, (critic(states).squeeze(1) - returns).square().mean())
    advantage = returns - critic(states).squeeze(1).detach()
    policy = torch.distributions.Categorical(logits=actor(states))
    actor_loss = update(optimizer_a, -(policy.log_prob(policy.sample()) * advantage).mean())
    record.step(lr=1e-3, loss_c=critic_loss, loss_a=actor_loss)
record.done(actor, critic)
print(f"critic {critic_loss:.3f}")
