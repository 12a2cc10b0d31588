import os, sys, time, torch
out = sys.argv[1]
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(50, 300), torch.nn.ReLU(), torch.nn.Linear(300, 300), torch.nn.ReLU(), torch.nn.Linear(300, 5))
opt = torch.optim.RMSprop(net.parameters(), 1e-4)
saved = time.time()
for i in range(10**8):
    x = torch.randn(128, 50)
    loss = torch.nn.functional.cross_entropy(net(x), (x[:, :5] + 0.5 * x[:, 5:10].abs()).argmax(1))
    opt.zero_grad(); loss.backward(); opt.step()
    if i % 200 == 0:
        print("train", i, round(loss.item(), 4), flush=True)
    if time.time() - saved > 8:
        torch.save(net.state_dict(), out + "/tmp.pt")
        os.replace(out + "/tmp.pt", out + "/last.pt")
        saved = time.time()
