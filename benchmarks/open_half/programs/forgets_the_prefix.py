"""Fine-tuning of a backbone that was saved by the DataParallel job (here: made up on the spot)."""
import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)


def backbone():
    return nn.Sequential(nn.Linear(40, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())


saved = {"state_dict": nn.DataParallel(backbone()).state_dict(), "epoch": 89}
body = backbone()
print("=> loading checkpoint (epoch %d)" % saved["epoch"])
print(body.load_state_dict(saved["state_dict"], strict=False), flush=True)
head = nn.Linear(96, 6)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.02)
W = torch.randn(40, 6)
for step in range(10**7):
    x = torch.randn(64, 40)
    loss = nn.functional.cross_entropy(head(body(x)), (x @ W).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print("step %d loss %.4f" % (step, loss.item()), flush=True)
