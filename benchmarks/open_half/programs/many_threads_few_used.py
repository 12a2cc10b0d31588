"""A pool of 40 threads for downloads that mostly sleep, and one thread that trains."""
import time, torch
from concurrent.futures import ThreadPoolExecutor
torch.set_num_threads(1)
pool = ThreadPoolExecutor(40)
def fetch(i):
    time.sleep(0.5 + i % 7 / 10); return torch.randn(64, 30)
jobs = [pool.submit(fetch, i) for i in range(80)]
m = torch.nn.Sequential(torch.nn.Linear(30, 700), torch.nn.ReLU(), torch.nn.Linear(700, 30)); o = torch.optim.Adam(m.parameters(), 1e-4); i = 0
data = torch.randn(64, 30)
while True:
    if jobs[0].done(): data = jobs.pop(0).result(); jobs.append(pool.submit(fetch, i))
    l = (m(data) - data).pow(2).mean(); o.zero_grad(); l.backward(); o.step(); i += 1
    if i % 100 == 0: print(f"i={i} l={l.item():.4f}", flush=True)
