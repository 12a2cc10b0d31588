import argparse, os, torch, torch.distributed as dist
p = argparse.ArgumentParser(); p.add_argument("--hidden", type=int, default=64); a = p.parse_args()
print("=> building model", flush=True)
m = torch.nn.Linear(10, a.hidden)
print(f"=> rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}: connecting", flush=True)
dist.init_process_group("gloo")
m = torch.nn.parallel.DistributedDataParallel(m)
for i in range(10**6):
    m(torch.randn(4, 10)).sum().backward()
