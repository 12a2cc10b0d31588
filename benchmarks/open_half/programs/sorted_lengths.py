"""python sorted_lengths.py   -- two processes, speech commands sorted by length so that batches need little padding"""
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

LENGTHS = sorted(torch.randint(20, 400, (4000,), generator=torch.Generator().manual_seed(3)).tolist())


def average(params):
    flat = torch.cat([p.grad.reshape(-1) for p in params])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    at = 0
    for p in params:
        p.grad.copy_(flat[at:at + p.numel()].view_as(p))
        at += p.numel()


def main(rank, world):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{os.environ.get('PORT', '29622')}", rank=rank, world_size=world)
    torch.manual_seed(0)
    rnn, out = torch.nn.LSTM(40, 96, batch_first=True), torch.nn.Linear(96, 30)
    params = [*rnn.parameters(), *out.parameters()]
    opt = torch.optim.Adam(params, 1e-3)
    mine = LENGTHS[rank * len(LENGTHS) // world:(rank + 1) * len(LENGTHS) // world]
    gen = torch.Generator().manual_seed(100 + rank)
    step = 0
    while True:
        for at in torch.randperm(len(mine) // 16, generator=gen).tolist():
            longest = mine[at * 16 + 15]
            x = torch.randn(16, longest, 40, generator=gen)
            y = x.mean(1)[:, :30].argmax(1)
            loss = torch.nn.functional.cross_entropy(out(rnn(x)[0].mean(1)), y)
            opt.zero_grad()
            loss.backward()
            average(params)
            opt.step()
            step += 1
            if step % 10 == 0 and rank == 0:
                print(f"step {step}: ce {loss.item():.3f}, padded to {longest}", flush=True)


if __name__ == "__main__":
    mp.start_processes(main, (2,), nprocs=2, start_method="spawn")
