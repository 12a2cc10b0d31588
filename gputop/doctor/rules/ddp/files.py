"""Several ranks that write one file (C14)."""

from __future__ import annotations

from collections import Counter

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Rule, Suspicion

_DATA_ENDINGS = (
    ".arrow", ".bin", ".ckpt", ".csv", ".db", ".download", ".gz", ".h5", ".hdf5", ".incomplete", ".json", ".jsonl", ".npy",
    ".npz", ".parquet", ".part", ".pickle", ".pkl", ".pt", ".pth", ".safetensors", ".tar", ".tgz", ".tmp", ".tsv", ".ubyte",
    ".zip",
)  # fmt: skip
"""Data files and checkpoints: logs shared by all ranks are common and harmless."""
C14_HOLD_S = 3.0
"""Ranks that write one after the other share an open file only for a moment (our choice)."""


def same_file(evidence: Evidence, group: RankGroup) -> Judgement:
    """C14: several ranks write the same file at once: a checkpoint, or a data set that each rank downloads."""
    open_by: dict[str, set[int]] = {}
    for member in group.members:
        for path in member.process.files_written if member.process is not None else ():
            if member.rank is not None and path.lower().endswith(_DATA_ENDINGS):
                open_by.setdefault(path, set()).add(member.rank)
    shared = {path: ranks for path, ranks in open_by.items() if len(ranks) > 1}
    source = "/proc/<pid>/fd"
    saved = _saved_by_several(group) if not shared else None
    if saved is not None:
        shared, source = {saved[0]: saved[1]}, "journal: checkpoint"
    if not shared:
        return None
    path, numbers = max(shared.items(), key=lambda item: (len(item[1]), item[0]))
    name = path.rpartition("/")[2]
    who = tracked.who(sorted(numbers), tracked.world(group))
    finding = tracked.about(
        group,
        "C14",
        "warning",
        "likely",
        f"{tracked.capital(who)} write {name} at the same time",
        [Fact(f"{who} {'have it open for writing' if source[0] == '/' else 'saved it'}: {path}", sorted(numbers), source)],
        "Every rank runs the same script. Without a condition, each rank saves the checkpoint, or downloads and unpacks "
        "the data, and they overwrite each other.",
        'if dist.get_rank() == 0:\n    torch.save(model.module.state_dict(), "checkpoint.pt")\ndist.barrier()\n'
        "# downloads: rank 0 first, then the barrier, then the others with download=False",
        "The ranks write different parts of the file on purpose.",
    )
    return Suspicion(finding, C14_HOLD_S if source[0] == "/" else 0.0)


C14 = Rule(
    id="C14",
    order=1303,
    family="ddp",
    title="Several ranks write the same file",
    severities=("warning",),
    confidences=("likely",),
    needs=("/proc/<pid>/fd", "journal: checkpoint"),
    window_s=C14_HOLD_S,
    threshold="two ranks have a data or checkpoint file open for writing, or save it at the same step",
    mechanism=(
        "Every rank runs the same script. Without a condition, each rank saves the checkpoint or downloads the data, and "
        "they overwrite each other."
    ),
    signature=("Two or more ranks have the same data or checkpoint file open for writing, or save it at the same step."),
    look_alike="Log files that all ranks share; ranks that write different parts of a file.",
    fix="Save and download only on rank 0, then call dist.barrier().",
    judge=same_file,
)


def _saved_by_several(group: RankGroup) -> tuple[str, set[int]] | None:
    """Return a path to which several ranks on one machine saved at the same step."""
    counted: Counter[tuple[str, int, str | None]] = Counter()
    ranks: dict[tuple[str, int, str | None], set[int]] = {}
    for rank in tracked.ranks_of(group):
        fact = facts_of(rank).checkpoint
        if fact is None or fact.path is None or fact.step is None:
            continue
        key = (fact.path, fact.step, rank.hostname)
        counted[key] += 1
        ranks.setdefault(key, set()).add(rank.rank)
    most = counted.most_common(1)
    return (most[0][0][0], ranks[most[0][0]]) if most and most[0][1] > 1 else None
