import torch
from tqdm import tqdm
torch.manual_seed(0); torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(20, 128), torch.nn.Softplus(), torch.nn.Linear(128, 2))
opt = torch.optim.Adam(net.parameters(), 5e-2)
bar = tqdm(range(200000), mininterval=1.0)
for i in bar:
    x = torch.randn(128, 20)
    mu, sigma = net(x).chunk(2, dim=1)
    y = x.sum(1, keepdim=True)
    nll = torch.log(sigma) + (y - mu) ** 2 / (2 * sigma ** 2)   # sigma should go through softplus
    loss = nll.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 20 == 0:
        bar.set_postfix(loss=f"{loss.item():.4f}", lr=5e-2)
