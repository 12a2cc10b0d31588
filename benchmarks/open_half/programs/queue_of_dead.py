"""Batches come from a producer process over a queue."""
import multiprocessing as mp
import torch


def produce(queue, n):
    for i in range(n):
        queue.put(torch.randn(256, 32).numpy())
    # the shard list ends here, and so does the process


if __name__ == "__main__":
    ctx = mp.get_context("spawn")
    queue = ctx.Queue(8)
    ctx.Process(target=produce, args=(queue, 300), daemon=True).start()
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-4)
    it = 0
    while it < 1_000_000:
        x = torch.from_numpy(queue.get())
        loss = (model(x).squeeze(1) - x.norm(dim=1)).pow(2).mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        it += 1
        if it % 20 == 0:
            print(f"iter {it} loss={loss.item():.4f}", flush=True)
