"""A language model: an LSTM over batches of tokens from a long text, time first, without a loader."""

import torch
from said import say
from torch import nn

torch.manual_seed(8)


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(20, 8)
        self.rnn = nn.LSTM(8, 16)
        self.decoder = nn.Linear(16, 20)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output), hidden


text = torch.randint(0, 20, (50, 6))
model = RNNModel()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
hidden = (torch.zeros(1, 6, 16), torch.zeros(1, 6, 16))
losses = []
for start in range(0, 49 - 7, 7):
    data, target = text[start : start + 7], text[start + 1 : start + 8]
    hidden = tuple(item.detach() for item in hidden)
    optimizer.zero_grad()
    output, hidden = model(data, hidden)
    loss = nn.functional.cross_entropy(output.reshape(-1, 20), target.reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    losses.append(loss.item())
say(len(losses), [model], loss=losses)
