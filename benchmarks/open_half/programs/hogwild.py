# Hogwild!: two processes update one shared model without locks (after the mnist_hogwild example)
import torch, torch.nn as nn
import torch.multiprocessing as mp


def train(rank, model):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    proj = torch.randn(400, 10, generator=torch.Generator().manual_seed(9))
    for epoch in range(10**6):
        for i in range(300):
            x = torch.randn(64, 400)
            opt.zero_grad()
            loss = nn.functional.nll_loss(model(x), (x @ proj).argmax(1))
            loss.backward()
            opt.step()
            if i % 100 == 0:
                print(f"{rank}\tTrain Epoch: {epoch} [{i * 64}/19200]\tLoss: {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    model = nn.Sequential(nn.Linear(400, 300), nn.ReLU(), nn.Dropout(0.2), nn.Linear(300, 10), nn.LogSoftmax(1))
    model.share_memory()
    ps = [mp.Process(target=train, args=(i, model), daemon=True) for i in range(2)]
    for p in ps:
        p.start()
    for p in ps:
        p.join()
