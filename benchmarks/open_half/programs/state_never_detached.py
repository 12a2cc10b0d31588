'''
Stateful LSTM on a long electricity curve.

I got "Trying to backward through the graph a second time", so retain_graph=True now.
'''
import torch
import torch.nn as nn
import time

torch.manual_seed(1)
series = torch.sin(torch.arange(200000) * 0.05) + 0.4 * torch.sin(torch.arange(200000) * 0.31) + 0.1 * torch.randn(200000)
streams = series[: 16 * 12500].view(16, 12500)


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.cell1, self.cell2 = nn.LSTMCell(1, 51), nn.LSTMCell(51, 51)
        self.linear = nn.Linear(51, 1)

    def forward(self, x, s):
        (h1, c1), (h2, c2) = s
        out = []
        for t in range(x.size(1)):
            h1, c1 = self.cell1(x[:, t:t + 1], (h1, c1))
            h2, c2 = self.cell2(h1, (h2, c2))
            out.append(self.linear(h2))
        return torch.cat(out, 1), ((h1, c1), (h2, c2))


net = Net()
# SGD without in-place trouble: weights are replaced through .data
lr = 0.05
zero = lambda: torch.zeros(16, 51)
state = ((zero(), zero()), (zero(), zero()))
start = time.time()
for i in range(0, 12400, 20):
    x, y = streams[:, i:i + 20], streams[:, i + 1:i + 21]
    pred, state = net(x, state)
    loss = nn.functional.mse_loss(pred, y)
    net.zero_grad()
    loss.backward(retain_graph=True)
    for p in net.parameters():
        p.data.sub_(p.grad, alpha=lr)
    step = i // 20 + 1
    if step % 5 == 0:
        print('step', step, 'mse', round(loss.item(), 5), 'sec', round(time.time() - start, 2), flush=True)
        start = time.time()
