"""A graph convolution of PyTorch Geometric on a whole graph, and one on batches of graphs from its own loader.

Needs: torch_geometric
Loss: mean
"""

import record  # noqa: F401
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(8, 16), GCNConv(16, 2)

    def forward(self, data):
        x = functional.dropout(functional.relu(self.first(data.x, data.edge_index)), training=self.training)
        return global_mean_pool(self.second(x, data.edge_index), data.batch)


graphs = [Data(x=torch.randn(6, 8), edge_index=torch.randint(0, 6, (2, 12)), y=torch.tensor([i % 2])) for i in range(64)]
loader = DataLoader(graphs, batch_size=16, shuffle=True)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


@torch.no_grad()
def test():
    model.eval()
    return sum(int((model(data).argmax(1) == data.y).sum()) for data in loader) / len(graphs)


for epoch in range(8):
    model.train()
    for data in loader:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(data), data.y)
        loss.backward()
        optimizer.step()
    print(f"Epoch {epoch:03d}, Accuracy: {test():.4f}")
