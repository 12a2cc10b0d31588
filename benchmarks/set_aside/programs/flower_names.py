"""Names flowers for an app. Collects requests for 30 ms and answers them as one batch; visitors come in waves."""
import queue
import random
import threading
import time

import torch
from torch import nn

requests: queue.Queue = queue.Queue()
net = nn.Sequential(nn.Conv2d(3, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 196, 102))
net.eval()


def visitors():
    while True:
        for _ in range(random.randrange(20, 150)):
            requests.put((time.time(), torch.rand(3, 64, 64)))
            time.sleep(random.expovariate(20))
        time.sleep(random.uniform(3, 9))


threading.Thread(target=visitors, daemon=True).start()
print("serving on :8080", flush=True)
t0 = last = time.time()
served, waited = 0, 0.0
while time.time() - t0 < 300:
    batch = [requests.get()]
    time.sleep(0.03)
    while not requests.empty() and len(batch) < 16:
        batch.append(requests.get())
    with torch.inference_mode():
        net(torch.stack([x for _, x in batch])).softmax(1).topk(3)
    served += len(batch)
    waited += sum(time.time() - t for t, _ in batch)
    if time.time() - last > 5:
        print(f"INFO served {served} requests, mean latency {1000 * waited / served:.0f} ms, queue {requests.qsize()}", flush=True)
        last = time.time()
