"""Sparse embeddings: SparseAdam and Adam step together."""

import record
import torch

torch.manual_seed(0)
table, head = torch.nn.EmbeddingBag(50, 8, sparse=True), torch.nn.Linear(8, 1)
sparse = torch.optim.SparseAdam(table.parameters(), lr=0.01)
dense = torch.optim.Adam(head.parameters(), lr=0.02)
for _ in range(40):
    words = torch.randint(0, 50, (16, 5))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(head(table(words)), (words[:, :1] > 25).float())
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
    record.step(loss=loss.item(), lr=0.01)
record.done(table, head)
print("done")
