"""
Sentiment of diner reviews (1 = would eat there again) with a LSTM
follows the sentiment RNN notebook of the Udacity course
"""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

np.random.seed(0)
torch.manual_seed(0)

# ---------------------------------------------------------------- data
VOCAB, SEQ = 4000, 80
good, bad = np.arange(20, 220), np.arange(220, 420)


def write_reviews(n):
    feats = np.zeros((n, SEQ), dtype=np.int64)
    labels = np.random.randint(0, 2, n)
    for i, lab in enumerate(labels):
        length = np.random.randint(25, SEQ)
        w = np.random.randint(420, VOCAB, length)
        mood, other = (good, bad) if lab else (bad, good)
        k = np.random.randint(3, 8)
        w[np.random.choice(length, k, replace=False)] = np.random.choice(mood, k)
        w[np.random.randint(length)] = np.random.choice(other)
        feats[i, -length:] = w
    return torch.from_numpy(feats), torch.from_numpy(labels)


batch_size = 50
train_data = TensorDataset(*write_reviews(9930))
valid_data = TensorDataset(*write_reviews(1000))
train_loader = DataLoader(train_data, shuffle=True, batch_size=batch_size)
valid_loader = DataLoader(valid_data, shuffle=True, batch_size=batch_size)

train_on_gpu = torch.cuda.is_available()
print("Training on GPU." if train_on_gpu else "No GPU available, training on CPU.")


# ---------------------------------------------------------------- model
class SentimentRNN(nn.Module):
    def __init__(self, vocab_size, output_size, embedding_dim, hidden_dim, n_layers, drop_prob=0.3):
        super().__init__()
        self.n_layers, self.hidden_dim = n_layers, hidden_dim
        self.embedding = nn.Embedding(vocab_size, embedding_dim)
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, n_layers, dropout=drop_prob, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.fc = nn.Linear(hidden_dim, output_size)
        self.sig = nn.Sigmoid()

    def forward(self, x, hidden):
        embeds = self.embedding(x)
        lstm_out, hidden = self.lstm(embeds, hidden)
        out = self.dropout(lstm_out[:, -1])
        return self.sig(self.fc(out)).squeeze(1), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (weight.new(self.n_layers, batch_size, self.hidden_dim).zero_(), weight.new(self.n_layers, batch_size, self.hidden_dim).zero_())


net = SentimentRNN(VOCAB, 1, 128, 160, 2)
if train_on_gpu:
    net.cuda()
print(net)

# ---------------------------------------------------------------- training
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
epochs, counter, print_every, clip = 10, 0, 10, 5

net.train()
for e in range(epochs):
    h = net.init_hidden(batch_size)
    for inputs, labels in train_loader:
        counter += 1
        if train_on_gpu:
            inputs, labels = inputs.cuda(), labels.cuda()
        h = tuple([each.data for each in h])
        net.zero_grad()
        output, h = net(inputs, h)
        loss = criterion(output, labels.float())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        if counter % print_every == 0:
            print("Epoch: {}/{}...".format(e + 1, epochs), "Step: {}...".format(counter), "Loss: {:.6f}...".format(loss.item()))

    net.eval()
    val_losses, num_correct = [], 0
    with torch.no_grad():
        val_h = net.init_hidden(batch_size)
        for inputs, labels in valid_loader:
            output, val_h = net(inputs, val_h)
            val_losses.append(criterion(output, labels.float()).item())
            num_correct += (output.round() == labels).sum().item()
    print("Val Loss: {:.6f}".format(np.mean(val_losses)), "Val acc: {:.3f}".format(num_correct / len(valid_data)))
    net.train()
