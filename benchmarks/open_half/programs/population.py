"""Population based training: two at a time, the worse copies the better one and changes its rate."""
import random, torch
import torch.multiprocessing as mp


def member(job):
    state, lr, seed = job
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(20, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1))
    if state is not None:
        net.load_state_dict({k: torch.tensor(v) for k, v in state.items()})
    opt = torch.optim.SGD(net.parameters(), lr)
    for _ in range(800):
        x = torch.randn(64, 20, generator=g)
        loss = (net(x)[:, 0] - torch.sin(x[:, 0] * 2) - x[:, 1]).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
    return {k: v.numpy() for k, v in net.state_dict().items()}, lr, loss.item()


if __name__ == "__main__":
    random.seed(0)
    people = [(None, 10 ** random.uniform(-3, -1)) for _ in range(4)]
    with mp.get_context("spawn").Pool(2) as pool:
        for generation in range(10**6):
            done = pool.map(member, [(s, lr, generation * 10 + i) for i, (s, lr) in enumerate(people)])
            done.sort(key=lambda d: d[2])
            print(f"generation {generation}: best loss {done[0][2]:.4f} lr {done[0][1]:.2e}, worst {done[-1][2]:.4f}", flush=True)
            people = [(s, lr) for s, lr, _ in done[:2]] + [(s, lr * random.choice((0.8, 1.25))) for s, lr, _ in done[:2]]
