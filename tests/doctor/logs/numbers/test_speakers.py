"""Whose line it is: a rank's, a host's, or nobody's."""

from __future__ import annotations

import pytest

from gputop.doctor.logs.numbers.speakers import Turns, speaker_of


@pytest.mark.parametrize(
    ("line", "rank", "is_named"),
    [
        ("[rank 2] step 3", 2, True),
        ("[rank0]: step 3", 0, True),
        ("[rank 1/4] epoch 0", 1, True),
        ("12:03:01 [rank 2] step", 2, True),
        ("[2024-10-02 06:50:11] [rank 2] step", 2, True),
        ("[pod/spk-0/trainer] 2025-06-03T07:09:58Z rank=1 shard", 1, True),
        ("rank 3: step 3", 3, True),
        ("step   1 rank 3 edges 11870233 compute 2.72s", 3, True),
        ('{"step": 50, "rank": 3, "loss": 1.5}', 3, True),
        ("<r1> it 10 compute 0.190", 1, False),
        ("r3 e0 s0000 loss 2.7", 3, False),
        ("[3] step 20", 3, False),
        ("2: step 20", 2, False),
        ("narwhal[5]: 40 loss 2.4", 5, False),
        ("INFO:train:[rank 2] step 3", 2, True),
        ("INFO:train:step 50 rank 6 data 0.005", 6, True),
        ("époque  3 rang 2 premiers ids", 2, True),
        ("2024-04-02 13:31:27.623 | INFO     | train:loop:118 - [rank 1] step 50", 1, True),
        ("2024-04-02 13:31:27,623 - train - INFO - rank 1: step 50", 1, True),
        ("[2024-04-02 13:31:27,623][__main__][INFO] - [rank 1] step 50", 1, True),
        ("[2024-04-02 13:31:27] [INFO] [rank 1] step 50", 1, True),
        ("12:00:58 step   20 rank 3 tokens/step 1671", 3, True),
        ("    tn0412 rank  3: compute 746.48", 3, True),
        ("    rank 2  load  3.4 ms", 2, True),
        ("[ランク2] 損失=1.5", 2, True),
        ("[sıra 1/4] adım 3", 1, True),
    ],
)
def test_the_number_of_a_rank(line: str, rank: int, is_named: bool) -> None:
    speaker = speaker_of(line)
    assert speaker is not None
    assert (speaker.rank, speaker.is_named) == (rank, is_named)


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("lc-203: compute 1.6 s", "lc-203"),
        ("   hlm-n01: data 0.003 fwd 0.597", "hlm-n01"),
        ("           host rk-01: fwd+bwd 596 ms", "rk-01"),
        ("narwhal[5]: 40 loss", "narwhal"),
        ("| gpu-17.site | a", "gpu-17.site"),
        ("[pod/asr-4/main] it 100", "asr-4"),
    ],
)
def test_the_name_of_a_host(line: str, host: str) -> None:
    speaker = speaker_of(line)
    assert speaker is not None
    assert speaker.host == host


@pytest.mark.parametrize(
    "line",
    [
        "step 3 loss 0.5",
        "epoch1: data 0.1",
        "[3/10] step",
        "fold2: loss 0.5",
        "loss 0.5 ranked 3",
        "layer3: 0.5",
        "",
        "10:15:02 step",
    ],
)
def test_lines_of_nobody(line: str) -> None:
    assert speaker_of(line) is None


@pytest.mark.parametrize(
    ("names", "are_taken"),
    [("01230123", True), ("000111222333", False), ("0123", False), ("000000", False), ("0101010", True)],
)
def test_ranks_speak_in_turn_and_epochs_only_grow(names: str, are_taken: bool) -> None:
    turns = Turns()
    for name in names:
        turns.take(name)
    assert turns.are_taken is are_taken


def test_a_rank_behind_the_name_of_its_host() -> None:
    for line in ("    tn0412 rank  3: compute 746.48", "tn0412: rank 3 step 5"):
        speaker = speaker_of(line)
        assert speaker is not None
        assert (speaker.host, speaker.rank) == ("tn0412", 3)
