"""An inference engine: one process takes requests and batches them, two workers each hold half of the heads and wait."""
import random, time
import torch, torch.distributed as dist
import torch.multiprocessing as mp
import os

HEADS, D, LAYERS = 4, 256, 3


def worker(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    up = [torch.randn(D, D * 2) * 0.02 for _ in range(LAYERS)]
    down = [torch.randn(D * 2, D) * 0.02 for _ in range(LAYERS)]
    kv = torch.zeros(64, 512, D)  # reserved once, as engines do
    rng, waiting, running, served = random.Random(0), 0, [], 0
    with torch.inference_mode():
        while True:
            # rank 0 is the scheduler and tells how many tokens the next step has; 0: nothing to do
            plan = torch.zeros(1, dtype=torch.long)
            if rank == 0:
                if rng.random() < (0.2 if served % 400 < 250 else 0.004):
                    running.append(rng.randint(8, 60))
                plan[0] = len(running[:64])
            dist.broadcast(plan, 0)
            n = int(plan)
            if n == 0:
                served += rank == 0
                time.sleep(0.02)
                continue
            x = torch.randn(n, D)
            for a, b in zip(up, down):
                h = torch.relu(x @ a) @ b
                dist.all_reduce(h)
                x = torch.nn.functional.layer_norm(x + h, (D,))
            kv[:n, served % 512] = x
            if rank == 0:
                running = [left - 1 for left in running if left > 1]
                served += 1
                if served % 100 == 0:
                    print(f"INFO engine: Running: {len(running)} reqs, Waiting: {waiting} reqs, KV cache usage: {n / 64:.1%}", flush=True)


if __name__ == "__main__":
    mp.spawn(worker, args=(int(os.environ.get("PORT", 29733)),), nprocs=2)
