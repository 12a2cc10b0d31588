# # Active learning
# The model is trained anew in each round; then the samples about which it is least sure are labelled.

# In[1]:
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(4)
proto = torch.randn(15, 400)
pool_y = torch.randint(0, 15, (30000,))
pool_x = proto[pool_y] * 0.25 + torch.randn(30000, 400)
pool_y = torch.where(torch.rand(30000) < 0.1, torch.randint(0, 15, (30000,)), pool_y)
labelled = torch.randperm(30000)[:1000]

# In[2]:


def fresh():
    return nn.Sequential(nn.Linear(400, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 1024), nn.ReLU(), nn.Dropout(0.5), nn.Linear(1024, 15))


# In[3]:
for round_ in range(200):
    net = fresh()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for step in range(40):
        pick = labelled[torch.randint(0, len(labelled), (256,))]
        loss = F.cross_entropy(net(pool_x[pick]), pool_y[pick])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 0:
            print(f"round {round_} ({len(labelled)} labels) step {step}: loss = {loss.item():.3f}", flush=True)
    net.eval()
    with torch.no_grad():
        p = torch.cat([net(part).softmax(1) for part in pool_x.split(3000)])
    print(f"round {round_}: accuracy on the pool {(p.argmax(1) == pool_y).float().mean():.3f}", flush=True)
    doubt = -(p * p.clamp_min(1e-9).log()).sum(1)
    doubt[labelled] = -1
    labelled = torch.cat([labelled, doubt.topk(50).indices])
