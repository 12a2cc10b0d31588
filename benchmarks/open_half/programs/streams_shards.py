"""Pretrains a small masked model on shards of tokens; each shard is read once and used for many batches."""
import os, tempfile
import numpy as np
import torch
torch.set_num_threads(1); torch.manual_seed(0)
where = tempfile.mkdtemp()
for n in range(3):
    np.save(f"{where}/shard{n}.npy", np.random.default_rng(n).integers(0, 500, 400_000).astype("int32"))
emb = torch.nn.Embedding(500, 64); head = torch.nn.Sequential(torch.nn.Linear(64 * 16, 512), torch.nn.GELU(), torch.nn.Linear(512, 500))
opt = torch.optim.AdamW([*emb.parameters(), *head.parameters()], 1e-3)
step = 0
while True:
    tokens = torch.from_numpy(np.load(f"{where}/shard{step // 500 % 3}.npy").astype("int64"))
    for _ in range(500):
        i = torch.randint(0, len(tokens) - 17, (32,))
        x = torch.stack([tokens[k:k + 17] for k in i])
        loss = torch.nn.functional.cross_entropy(head(emb(x[:, :16]).flatten(1)), x[:, 16])
        opt.zero_grad(); loss.backward(); opt.step(); step += 1
        if step % 20 == 0:
            print(f"step {step} mlm {loss.item():.3f}", flush=True)
