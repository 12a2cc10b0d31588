"""The same backbone, another number of classes: the head is new on purpose."""
import torch
from torch import nn

torch.manual_seed(1)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self, classes, head):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(40, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())
        setattr(self, head, nn.Linear(96, classes))
        self.head = head

    def forward(self, x):
        return getattr(self, self.head)(self.body(x))


net = Net(6, "few_classes")
print(net.load_state_dict(Net(1000, "imagenet_fc").state_dict(), strict=False), flush=True)
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
W = torch.randn(40, 6)
for step in range(10**7):
    x = torch.randn(64, 40)
    loss = nn.functional.cross_entropy(net(x), (x @ W).argmax(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print("step %d loss %.4f" % (step, loss.item()), flush=True)
