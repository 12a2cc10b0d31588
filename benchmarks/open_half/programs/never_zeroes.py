# my loss goes up after a while?? (PyTorch forum)
import torch
import torch.nn as nn
torch.manual_seed(7); torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(20, 128), nn.Tanh(), nn.Linear(128, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.5)
inputs = torch.randn(2000, 20)
targets = inputs[:, :1] * 3 + inputs[:, 1:2] ** 2
for epoch in range(100000):
    perm = torch.randperm(2000)
    running = 0.0
    for i in range(0, 2000, 50):
        idx = perm[i:i + 50]
        outputs = model(inputs[idx])
        loss = criterion(outputs, targets[idx])
        loss.backward()
        optimizer.step()
        running += loss.item()
    print('Epoch %d loss: %.3f' % (epoch + 1, running / 40), flush=True)
