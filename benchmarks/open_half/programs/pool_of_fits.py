"""k-fold x grid, two at a time"""
import itertools
from concurrent.futures import ProcessPoolExecutor, as_completed
import multiprocessing as mp


def fit(fold, hidden, lr):
    import torch
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(fold)
    x = torch.randn(1500, 24, generator=g)
    y = (x[:, 0] * x[:, 1]).unsqueeze(1)
    net = torch.nn.Sequential(torch.nn.Linear(24, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1))
    opt = torch.optim.Adam(net.parameters(), lr)
    for _ in range(1200):
        i = torch.randint(0, 1200, (128,), generator=g)
        loss = torch.nn.functional.mse_loss(net(x[i]), y[i])
        opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        return fold, hidden, lr, torch.nn.functional.mse_loss(net(x[1200:]), y[1200:]).item()


if __name__ == "__main__":
    grid = itertools.cycle(itertools.product(range(5), (32, 128, 512), (1e-2, 1e-3)))
    with ProcessPoolExecutor(2, mp_context=mp.get_context("spawn")) as pool:
        while True:
            for done in as_completed([pool.submit(fit, *next(grid)) for _ in range(6)]):
                print("fold %d hidden %d lr %g -> mse %.4f" % done.result(), flush=True)
