# A small server's worker: no training, tokens one by one with a cache, requests come in bursts.
import random
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

random.seed(3)
model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=384, n_head=6, vocab_size=5000)).eval().half().cuda()
print("model loaded, waiting for requests", flush=True)
served = 0
with torch.inference_mode():
    while True:
        time.sleep(random.expovariate(1.0))
        batch = torch.randint(0, 5000, (random.randint(1, 8), 32), device="cuda")
        began = time.time()
        out = model.generate(batch, max_new_tokens=96, do_sample=True, pad_token_id=0, eos_token_id=4999)
        served += len(batch)
        print(f"served {served} requests, {out.numel() / (time.time() - began):.0f} tok/s", flush=True)
