# %% [markdown] exported from a notebook, run cell by cell
# %%
import time, torch
torch.set_num_threads(1)
x = torch.randn(3000, 20); y = x.pow(2).sum(1, keepdim=True)
net = torch.nn.Sequential(torch.nn.Linear(20, 200), torch.nn.ReLU(), torch.nn.Linear(200, 1))
opt = torch.optim.Adam(net.parameters())
# %%
def cell(epochs):
    for e in range(epochs):
        for i in torch.randperm(3000).split(100):
            loss = (net(x[i]) - y[i]).pow(2).mean(); opt.zero_grad(); loss.backward(); opt.step()
        print("epoch", e, "loss", loss.item(), flush=True)
# %%
while True:
    cell(15)
    time.sleep(14)  # reading the plot
