"""tokenize + pack a corpus with all cores; torch only writes the shards"""
import collections, os, random, re, tempfile
import multiprocessing as mp
import torch

WORDS = ["".join(random.Random(i).choices("abcdefghijklmnopqrstuvwxyz", k=3 + i % 8)) for i in range(5000)]


def shard(n):
    rng = random.Random(n)
    vocab, ids = collections.Counter(), []
    for _ in range(400):
        text = " ".join(rng.choices(WORDS, k=300))
        for w in re.findall(r"[a-z]+", text):
            vocab[w] += 1
            ids.append(hash(w) % 50257)
    t = torch.tensor(ids[: len(ids) // 1024 * 1024], dtype=torch.int32).view(-1, 1024)
    path = os.path.join(tempfile.gettempdir(), f"pack-{os.getpid()}.pt")
    torch.save(t, path)
    os.remove(path)
    return n, t.shape[0], len(vocab)


if __name__ == "__main__":
    total = 0
    with mp.Pool(2) as pool:
        for n, rows, kinds in pool.imap_unordered(shard, range(10**6)):
            total += rows
            if n % 10 == 0:
                print(f"shard {n}: {rows} rows of 1024, {kinds} types; {total} rows in all", flush=True)
