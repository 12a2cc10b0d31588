"""Feature extractor is tuned on two shards; every worker writes the features of its shard at the end."""
import os, sys, time
import torch
import torch.distributed as dist

SHARD_STEPS = [4000, 30]

def average_gradients(model, world):
    for q in model.parameters():
        dist.all_reduce(q.grad)
        q.grad /= world

def write_features(model, rank):
    # one file per recording, on the archive
    for n in range(100000):
        with torch.no_grad():
            f = model(torch.randn(64, 80))
        with open(os.devnull, "wb") as out:
            out.write(f.numpy().tobytes())
        time.sleep(0.05)

def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(80, 384), torch.nn.ELU(), torch.nn.Linear(384, 384), torch.nn.ELU(), torch.nn.Linear(384, 30))
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    gen = torch.Generator().manual_seed(rank)
    for step in range(SHARD_STEPS[rank]):
        x = torch.randn(96, 80, generator=gen)
        y = x[:, :30].argmax(1)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        average_gradients(model, world)
        opt.step()
        time.sleep(0.02)
        if step % 10 == 0:
            print(f"[{rank}] {step} xent={loss.item():.4f}", flush=True)
    write_features(model, rank)

main()
