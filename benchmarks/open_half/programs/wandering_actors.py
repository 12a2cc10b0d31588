"""A2C over torch.distributed: rank 0 learns, rank 1 plays episodes of any length."""
import os, random, time
import torch, torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
pi = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
N = sum(p.numel() for p in pi.parameters())
opt = torch.optim.Adam(pi.parameters(), 3e-3)
update = 0
while True:
    flat = torch.nn.utils.parameters_to_vector(pi.parameters()).detach()
    dist.broadcast(flat, 0)
    head = torch.zeros(1, dtype=torch.long)
    if rank == 1:
        torch.nn.utils.vector_to_parameters(flat, pi.parameters())
        n = random.randint(20, 400)
        s = torch.randn(n, 4)
        time.sleep(n / 2000)
        a = torch.distributions.Categorical(logits=pi(s)).sample()
        ret = (a == s.argmax(1).clamp(max=2)).float()
        head[0] = n
        dist.send(head, 0); dist.send(torch.cat([s, a[:, None].float(), ret[:, None]], 1), 0)
    else:
        dist.recv(head, 1)
        got = torch.empty(int(head), 6)
        dist.recv(got, 1)
        s, a, ret = got[:, :4], got[:, 4].long(), got[:, 5]
        loss = -(torch.distributions.Categorical(logits=pi(s)).log_prob(a) * (ret - ret.mean())).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        update += 1
        if update % 10 == 0:
            print(f"update {update} return {ret.mean():.3f} policy_loss {loss.item():+.4f} episode_len {len(s)}", flush=True)
