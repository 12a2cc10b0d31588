"""What a notebook kernel does: runs cells as they come, and sits idle while somebody reads and types."""
import code, time

CELLS = [
    (2, "import torch\ntorch.manual_seed(0)\n"),
    (3, "net = torch.nn.Sequential(torch.nn.Linear(60, 300), torch.nn.ReLU(), torch.nn.Linear(300, 4))\nopt = torch.optim.Adam(net.parameters(), 1e-3)\n"),
    (6, "def fit(n):\n    for i in range(n):\n        x = torch.randn(128, 60)\n        loss = torch.nn.functional.cross_entropy(net(x), x[:, :4].argmax(1))\n        opt.zero_grad(); loss.backward(); opt.step()\n        if i % 100 == 0: print(i, loss.item(), flush=True)\n"),
    (9, "fit(1500)\n"),
    (7, "fit(oops)\n"),
    (8, "fit(3000)\n"),
    (5, "with torch.no_grad():\n    x = torch.randn(5000, 60)\n    print('acc', (net(x).argmax(1) == x[:, :4].argmax(1)).float().mean().item(), flush=True)\n"),
    (12, "opt = torch.optim.Adam(net.parameters(), 1e-4)\nfit(2000)\n"),
]
shell = code.InteractiveInterpreter({"__name__": "__main__"})
n = 0
while True:
    for pause, cell in CELLS:
        n += 1
        print(f"In [{n}]:", flush=True)
        shell.runsource(cell, f"<cell {n}>", "exec")
        time.sleep(pause)
