"""A pool parses the documents of each batch; the trainer waits for it."""
import multiprocessing as mp, re
import torch

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


def parse(seed):
    text = " ".join(WORDS[(seed * k) % 10] for k in range(9000))
    for w in WORDS:
        for v in WORDS:
            text = re.sub(rf"\b{w}\b \b{v}\b", f"{v} {w}", text)
    return [text.count(w) for w in WORDS]


if __name__ == "__main__":
    torch.set_num_threads(1)
    net = torch.nn.Linear(10, 10); opt = torch.optim.SGD(net.parameters(), 1e-6)
    with mp.get_context("fork").Pool(2) as pool:
        for step in range(10**6):
            rows = torch.tensor(pool.map(parse, range(step * 8, step * 8 + 8)), dtype=torch.float) / 1000
            loss = (net(rows) - rows).pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            print(f"step {step} loss {loss.item():.3f}", flush=True)
