import os, sys, time, torch
path, seen = sys.argv[1] + "/last.pt", 0
net = torch.nn.Sequential(torch.nn.Linear(50, 300), torch.nn.ReLU(), torch.nn.Linear(300, 300), torch.nn.ReLU(), torch.nn.Linear(300, 5)).eval()
while True:  # waits for new checkpoints, does nothing in between
    if os.path.exists(path) and os.path.getmtime(path) > seen:
        seen = os.path.getmtime(path)
        net.load_state_dict(torch.load(path, weights_only=True))
        good = 0
        with torch.inference_mode():
            for _ in range(300):
                x = torch.randn(500, 50)
                good += (net(x).argmax(1) == (x[:, :5] + 0.5 * x[:, 5:10].abs()).argmax(1)).sum().item()
        print(f"eval acc {good / 150000:.4f}", flush=True)
    time.sleep(1)
