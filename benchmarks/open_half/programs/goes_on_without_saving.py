import logging, os, pickle, sys
import torch

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
log = logging.getLogger("trainer")


class Trainer:
    def __init__(self, path):
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 8))
        self.opt = torch.optim.Adam(self.net.parameters(), 3e-4)
        self.path = path

    def save(self, epoch):
        try:
            with open(self.path, "wb") as f:
                pickle.dump({k: v.numpy() for k, v in self.net.state_dict().items()}, f)
        except Exception as e:
            log.warning("could not write checkpoint of epoch %d: %s", epoch, e)

    def fit(self):
        w = torch.randn(64, 8)
        for epoch in range(10**6):
            for _ in range(40):
                x = torch.randn(64, 64)
                loss = (self.net(x) - torch.sin(x @ w / 8)).pow(2).mean()
                self.opt.zero_grad(); loss.backward(); self.opt.step()
            log.info("epoch %d train_loss %.5f", epoch, loss.item())
            self.save(epoch)


if __name__ == "__main__":
    # the scratch disk is full: /dev/full answers like one
    Trainer(os.environ.get("SCRATCH_CKPT", "/dev/full")).fit()
