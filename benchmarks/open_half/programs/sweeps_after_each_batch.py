import gc
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
# the catalogue stays in memory: 200k products with their words
catalogue = [{"id": i, "words": [i % 7, i % 11, i % 13], "price": (i % 97, "EUR")} for i in range(200_000)]

tower = nn.Sequential(nn.EmbeddingBag(8000, 128), nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))
opt = torch.optim.Adam(tower.parameters(), lr=1e-3)

for step in range(10**6):
    rows = [catalogue[i] for i in torch.randint(0, len(catalogue), (256,)).tolist()]
    words = torch.tensor([row["words"] for row in rows]) + 100
    price = torch.tensor([row["price"][0] for row in rows], dtype=torch.float32) / 97
    loss = (tower(words).mean(1) - price).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    del words, price
    gc.collect()                  # otherwise OOM after some hours (?)
    if step % 20 == 0:
        print("step", step, "mse", round(loss.item(), 5), flush=True)
