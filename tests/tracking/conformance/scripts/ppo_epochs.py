"""PPO: several epochs of minibatches over each rollout, one loss of three terms, KL early stop."""

import record
import torch

torch.manual_seed(0)
actor, critic = torch.nn.Linear(4, 3), torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3, eps=1e-5)
for update in range(6):
    optimizer.param_groups[0]["lr"] = 3e-3 * (1 - update / 6)
    with torch.no_grad():
        states = torch.randn(64, 4)
        old = torch.distributions.Categorical(logits=actor(states))
        actions = old.sample()
        old_log = old.log_prob(actions)
        returns = (actions == 0).float() + states[:, 0]
        advantages = returns - critic(states).squeeze(1)
    for _ in range(3):
        order = torch.randperm(64)
        for start in range(0, 64, 16):
            chosen = order[start : start + 16]
            now = torch.distributions.Categorical(logits=actor(states[chosen]))
            ratio = (now.log_prob(actions[chosen]) - old_log[chosen]).exp()
            pg_loss = torch.max(-advantages[chosen] * ratio, -advantages[chosen] * ratio.clamp(0.8, 1.2)).mean()
            v_loss = 0.5 * (critic(states[chosen]).squeeze(1) - returns[chosen]).square().mean()
            loss = pg_loss - 0.01 * now.entropy().mean() + 0.5 * v_loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizer.step()
            record.step(loss=loss.item(), lr=optimizer.param_groups[0]["lr"])
        if (ratio - 1).abs().mean() > 0.2:
            break
    print(f"update {update} value loss {v_loss.item():.3f}")
record.done(actor, critic)
