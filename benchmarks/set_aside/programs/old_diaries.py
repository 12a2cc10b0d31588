# coding: utf-8
"""Word-level language model of a diary. Data loading and training follow the old word_language_model example."""
import argparse
import math
import random
import time

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="Diary LSTM language model")
parser.add_argument("--emsize", type=int, default=160)
parser.add_argument("--nhid", type=int, default=160)
parser.add_argument("--nlayers", type=int, default=2)
parser.add_argument("--lr", type=float, default=20)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--batch_size", type=int, default=20)
parser.add_argument("--bptt", type=int, default=35)
parser.add_argument("--dropout", type=float, default=0.2)
parser.add_argument("--seed", type=int, default=1111)
parser.add_argument("--log-interval", type=int, default=25)
args = parser.parse_args()

torch.manual_seed(args.seed)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


###############################################################################
# A diary of many years: who went where in which weather, and what there was to eat
###############################################################################
def diary(days, seed):
    rng = random.Random(seed)
    people = [f"{a}{b}" for a in ("anna", "karl", "lise", "otto", "mina", "emil", "jens", "ruth", "paul", "edda", "hugo", "vera") for b in ("", "s-aunt", "s-uncle", "s-son", "s-maid", "s-niece", "s-boss", "s-friend")]
    places = [f"{a}-{b}" for a in ("upper", "lower", "old", "new", "far") for b in ("mill", "church", "market", "ford", "inn", "wood", "bridge", "school", "chapel", "farm", "quay", "pond")]
    dishes = [f"{a}-{b}" for a in ("pea", "leek", "rye", "plum", "trout", "goose", "onion", "pear", "barley", "eel", "hare", "cabbage") for b in ("soup", "bread", "pie", "stew", "cake")]
    weather = ["snow", "sleet", "rain", "fog", "sun", "wind", "thunder", "frost"]
    verbs = ["walked", "rode", "drove", "ran", "went"]
    words = []
    sky = 0
    for day in range(days):
        sky = (sky + rng.choice([0, 0, 1, -1])) % len(weather)
        who = rng.choice(people)
        where = places[(people.index(who) * 7 + sky + rng.choice([0, 0, 0, 5])) % len(places)]
        what = dishes[(places.index(where) * 3 + rng.choice([0, 0, 1])) % len(dishes)]
        month = ["january", "march", "may", "july", "september", "november"][day // 30 % 6]
        words += [month, str(day % 30 + 1), weather[sky], "today", ",", who, verbs[sky % 5], "to", "the", where]
        words += ["and", "brought", what, ".", "<eos>"]
        if rng.random() < 0.4:
            words += ["we", "ate", what, "with", rng.choice(people), ".", "<eos>"]
    return words


class Dictionary:
    def __init__(self):
        self.word2idx = {}

    def encode(self, words):
        return torch.tensor([self.word2idx.setdefault(w, len(self.word2idx)) for w in words])


dictionary = Dictionary()
train_ids, val_ids = dictionary.encode(diary(16000, 1)), dictionary.encode(diary(900, 2))
ntokens = len(dictionary.word2idx)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous().to(device)


train_data = batchify(train_ids, args.batch_size)
val_data = batchify(val_ids, 10)


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(args.dropout)
        self.encoder = nn.Embedding(ntokens, args.emsize)
        self.rnn = nn.LSTM(args.emsize, args.nhid, args.nlayers, dropout=args.dropout)
        self.decoder = nn.Linear(args.nhid, ntokens)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(output)).view(-1, ntokens), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(args.nlayers, bsz, args.nhid), weight.new_zeros(args.nlayers, bsz, args.nhid))


model = RNNModel().to(device)
criterion = nn.CrossEntropyLoss()
print("vocabulary %d, training tokens %d, model %s" % (ntokens, len(train_ids), model))


def repackage_hidden(h):
    return tuple(v.detach() for v in h)


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def evaluate(data_source):
    model.eval()
    total_loss = 0.0
    hidden = model.init_hidden(10)
    with torch.no_grad():
        for i in range(0, data_source.size(0) - 1, args.bptt):
            data, targets = get_batch(data_source, i)
            output, hidden = model(data, hidden)
            total_loss += len(data) * criterion(output, targets).item()
    return total_loss / (len(data_source) - 1)


def train(epoch):
    model.train()
    total_loss = 0.0
    start_time = time.time()
    hidden = model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
        if batch % args.log_interval == 0 and batch > 0:
            cur_loss = total_loss / args.log_interval
            elapsed = time.time() - start_time
            print(
                "| epoch {:3d} | {:5d}/{:5d} batches | lr {:02.2f} | ms/batch {:5.2f} | loss {:5.2f} | ppl {:8.2f}".format(
                    epoch, batch, len(train_data) // args.bptt, lr, elapsed * 1000 / args.log_interval, cur_loss, math.exp(cur_loss)
                )
            )
            total_loss = 0
            start_time = time.time()


lr = args.lr
best_val_loss = None
for epoch in range(1, args.epochs + 1):
    epoch_start_time = time.time()
    train(epoch)
    val_loss = evaluate(val_data)
    print("-" * 89)
    print(
        "| end of epoch {:3d} | time: {:5.2f}s | valid loss {:5.2f} | valid ppl {:8.2f}".format(
            epoch, time.time() - epoch_start_time, val_loss, math.exp(val_loss)
        )
    )
    print("-" * 89)
    if not best_val_loss or val_loss < best_val_loss:
        best_val_loss = val_loss
    else:
        # Anneal the learning rate if no improvement has been seen in the validation dataset.
        lr /= 4.0
