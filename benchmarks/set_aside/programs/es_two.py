"""OpenAI-ES, cart on a line. Workers exchange rewards only: the noise comes from shared seeds."""
import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
HID, POP, SIGMA, LR, T = 96, 64, 0.05, 0.02, 200
SHAPES = [(4, HID), (HID, HID), (HID, 1)]
DIM = sum(a * b for a, b in SHAPES)


def policy(theta, obs):
    # theta: (pop, DIM), obs: (pop, envs, 4)
    o, h = 0, obs
    for k, (a, b) in enumerate(SHAPES):
        h = torch.bmm(h, theta[:, o:o + a * b].view(-1, a, b))
        h = torch.tanh(h)
        o += a * b
    return h[..., 0]


def rollout(theta, seed):
    g = torch.Generator().manual_seed(seed)
    start = torch.rand(1, 16, 2, generator=g) * 4 - 2
    pos, goal = start[..., 0].expand(len(theta), -1), start[..., 1].expand(len(theta), -1)
    vel, reward = torch.zeros_like(pos), torch.zeros(len(theta))
    for _ in range(T):
        force = policy(theta, torch.stack([pos, vel, goal, goal - pos], 2))
        vel = 0.95 * vel + 0.1 * force
        pos = pos + 0.1 * vel
        reward -= ((pos - goal).abs() + 0.01 * force ** 2).mean(1)
    return reward / T


mean = 0.1 * torch.randn(DIM, generator=torch.Generator().manual_seed(0))
for gen in range(10**6):
    noises = [torch.randn(POP // 2, DIM, generator=torch.Generator().manual_seed(gen * world + w)) for w in range(world)]
    mine = torch.cat([noises[rank], -noises[rank]])
    r = rollout(mean + SIGMA * mine, gen)
    every = [torch.zeros_like(r) for _ in range(world)]
    dist.all_gather(every, r)
    every = torch.cat(every)
    eps = torch.cat([torch.cat([z, -z]) for z in noises])
    adv = (every - every.mean()) / (every.std() + 1e-8)
    mean = mean + LR / (len(adv) * SIGMA) * (adv @ eps) * SIGMA * 5
    if rank == 0 and gen % 2 == 0:
        print(f"gen {gen:4d}  reward mean {every.mean():.4f}  best {every.max():.4f}", flush=True)
