"""Embedding service with dynamic batching (asyncio), and the load generator that we use for it. Requests arrive in waves:
between them there is nothing to do."""
import asyncio
import json
import os
import random
import time

import torch
from torch import nn

PORT = int(os.environ.get("PORT", 8765))
torch.manual_seed(0)
torch.set_num_threads(1)
tower = nn.Sequential(nn.EmbeddingBag(20000, 256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 128)).eval()
pending: asyncio.Queue = asyncio.Queue()


async def batcher():
    served, t, sizes = 0, time.time(), []
    while True:
        jobs = [await pending.get()]
        await asyncio.sleep(0.004)                 # collect
        while not pending.empty() and len(jobs) < 64:
            jobs.append(pending.get_nowait())
        with torch.inference_mode():
            out = tower(torch.stack([ids for ids, _ in jobs]))
        for (_, answer), vector in zip(jobs, out):
            answer.set_result(vector.norm().item())
        served += len(jobs)
        sizes.append(len(jobs))
        if time.time() - t > 2:
            print(f"{time.strftime('%H:%M:%S')} INFO served={served} mean_batch={sum(sizes) / len(sizes):.1f} queue={pending.qsize()}", flush=True)
            t, sizes = time.time(), []


async def handle(reader, writer):
    while line := await reader.readline():
        answer = asyncio.get_running_loop().create_future()
        await pending.put((torch.tensor(json.loads(line)), answer))
        writer.write(json.dumps(await answer).encode() + b"\n")
        await writer.drain()


async def client(seed):
    rng = random.Random(seed)
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    while True:
        busy = time.time() % 9 < 5
        if not busy:
            await asyncio.sleep(rng.uniform(0.2, 0.8))
            continue
        writer.write(json.dumps([rng.randrange(20000) for _ in range(40)]).encode() + b"\n")
        await reader.readline()


async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", PORT)
    print(f"{time.strftime('%H:%M:%S')} INFO listening on {PORT}", flush=True)
    async with server:
        await asyncio.gather(batcher(), *(client(i) for i in range(24)))


asyncio.run(main())
