"""The DataParallel demo with one mistake: a batch smaller than the number of GPUs. (Doctor: B01, B02)

python demos/faults/dp_small_batch.py                    one sample: GPU 0 works alone
python demos/faults/dp_small_batch.py --batch-size 5     on 4 GPUs: pieces of 2, 2 and 1, the fourth GPU idle

nn.DataParallel cuts the batch with torch.chunk: ceil(batch / GPUs) samples to a piece, until there are none left.

The fix: a batch size that is a multiple of the number of GPUs, and many times it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo lies one folder up

import data_parallel

if __name__ == "__main__":
    # The mistake: a batch of 1, left over from a test; the healthy demo takes 128. (Such noisy steps have to be small ones.)
    data_parallel.main(batch_size=1, lr=0.001)
