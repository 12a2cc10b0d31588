"""A character model with get_batch and no loader, evaluated now and then."""

import record
import torch

torch.manual_seed(1337)
text = "the quick brown fox jumps over the lazy dog. " * 20
letters = sorted(set(text))
data = torch.tensor([letters.index(letter) for letter in text])


def get_batch():
    starts = torch.randint(len(data) - 9, (8,))
    return torch.stack([data[i : i + 8] for i in starts]), torch.stack([data[i + 1 : i + 9] for i in starts])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(len(letters), 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(16, len(letters))

    def forward(self, tokens, targets=None):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        logits = self.head(self.layer(self.embedding(tokens), mask, is_causal=True))
        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def estimate():
    model.eval()
    value = sum(model(*get_batch())[1].item() for _ in range(3)) / 3
    model.train()
    return value


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(40):
    if step % 10 == 0:
        print(f"step {step}: val loss {estimate():.4f}")
    _, loss = model(*get_batch())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    record.step(loss=loss.item(), lr=1e-2)
record.done(model)
