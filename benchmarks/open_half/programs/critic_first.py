import torch, torch.nn as nn
torch.manual_seed(8); torch.set_num_threads(1)
G = nn.Sequential(nn.Linear(16, 256), nn.LeakyReLU(.2), nn.Linear(256, 2))
D = nn.Sequential(nn.Linear(2, 256), nn.LeakyReLU(.2), nn.Linear(256, 1))
og, od = torch.optim.Adam(G.parameters(), 1e-4, (0., .9)), torch.optim.Adam(D.parameters(), 4e-4, (0., .9))
bce = nn.BCEWithLogitsLoss()
i = 0
while True:
    th = torch.rand(256) * 6.283; real = torch.stack([th.cos(), th.sin()], 1)
    fake = G(torch.randn(256, 16))
    d = bce(D(real), torch.full((256, 1), .9)) + bce(D(fake.detach()), torch.zeros(256, 1))
    od.zero_grad(); d.backward(); od.step()
    g = bce(D(fake), torch.ones(256, 1))
    og.zero_grad(); g.backward(); og.step(); i += 1
    if i % 100 == 0:
        print("[%d] Loss_D: %.4f\tLoss_G: %.4f\tD(x): %.4f" % (i, d.item(), g.item(), D(real).sigmoid().mean().item()), flush=True)
