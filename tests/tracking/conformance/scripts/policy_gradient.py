"""Policy gradient: a step per episode, episodes of any length."""

import record
import torch

torch.manual_seed(0)
policy = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for episode in range(40):
    state, log_probabilities, rewards = torch.zeros(2), [], []
    for _ in range(int(torch.randint(5, 30, ()))):
        action = torch.distributions.Categorical(logits=policy(state))
        taken = action.sample()
        log_probabilities.append(action.log_prob(taken))
        state = (state + torch.tensor([0.1, -0.1]) * (2 * taken - 1)).clamp(-1, 1)
        rewards.append(float(state[0]))
        if abs(float(state[0])) > 0.9:
            break
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    loss = -(torch.stack(log_probabilities) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=0.01)
    if episode % 10 == 0:
        print(f"episode {episode} return {sum(rewards):.2f}")
record.done(policy)
