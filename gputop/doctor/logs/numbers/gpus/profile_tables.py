"""What a table of torch.profiler says, which people print with ``key_averages().table()``. Pure.

Its columns are those of torch 1.8 to 2.13, torch/autograd/profiler_util.py (_build_table).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import COMMUNICATES, SMALL_STEPS, WAITS_FOR_DATA, Text

POSSIBLE, LIKELY = 0.2, 0.35
"""A wait takes at least this share of the processor's time, or a copy of the GPU's (our choice)."""
NCCL_LIKELY = 0.7
"""The same for NCCL: its kernels also run alongside others, and while they run, they wait for slower ranks (our choice)."""
LAUNCHES_LIKELY = 0.3
"""The same for kernel launches, which also cost time around the call (our choice)."""
BUSY = 0.8
"""A GPU that computes for this share of the processor's time does not wait, whatever the processor waits for (our choice)."""
CALLS_MIN = 10
"""The profiler itself waits for the GPU once or twice."""
_HEADING = "# of calls"
_ROW = re.compile(
    r"^\s{0,200}(?P<name>\S.{0,150}?)\s{2,60}(?P<own>\d{1,3}\.\d\d)%\s{1,30}\S{1,20}\s{1,30}(?P<total>\d{1,3}\.\d\d)%"
    r"(?P<rest>(?:\s{1,30}[\w.%-]{1,20}){1,30})\s{1,30}(?P<calls>\d{1,12})\s{0,10}$"
)
_SHORT_ROW = re.compile(
    r"^\s{0,200}(?P<name>\S.{0,150}?)\s{2,60}(?P<own>\d{1,3}\.\d\d)%"
    r"(?P<rest>(?:\s{1,30}[\w.%-]{1,20}){1,30})\s{1,30}(?P<calls>\d{1,12})\s{0,10}$"
)
"""A row of a table from which a script has left out columns: what it calls is not in it."""
_GPU_ROW = re.compile(
    r"^\s{0,200}(?P<name>\S.{0,150}?)\s{2,60}[\d.]{1,12}m?u?s(?P<rest>(?:\s{1,30}[\w.%-]{1,20}){1,30})\s{1,30}"
    r"(?P<calls>\d{1,12})\s{0,10}$"
)
"""A row of a table that has only the GPU's columns."""
_TOTAL = re.compile(r"^Self (CPU|CUDA) time total: (\d{1,9}(?:\.\d{1,6})?)(us|ms|s)\s*$")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_SHARE = re.compile(r"(\d{1,3}\.\d\d)%")


class _Row(NamedTuple):
    """A row: shares of the processor's time, without and with what it calls, the share of the GPU's, and the calls."""

    own: float
    total: float
    gpu: float
    calls: int


class _Kind(NamedTuple):
    """What a row may say: its id, which rows, which of their shares, and the sentences."""

    id: str
    rows: re.Pattern[str]
    share: str
    likely: float
    text: Text
    refuted_by: str


class ProfileTables:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first table."""
        self._is_inside = False
        self._row = _ROW
        self._rows: dict[str, _Row] = {}
        """The rows of the kinds below, in the last table."""
        self._totals: dict[str, float] = {}
        """The seconds of the processor and of the GPU below that table."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.text.startswith("Self C") and (total := _TOTAL.match(line.text)) is not None:
            self._totals[total[1]] = float(total[2]) * _UNITS[total[3]]
            return
        if "%" not in line.text and not self._is_inside:
            return
        if _HEADING in line.lower and ("self cpu %" in line.lower or "self cuda %" in line.lower):
            self._is_inside = True
            self._row = _ROW if "cpu total %" in line.lower else _SHORT_ROW if "self cpu %" in line.lower else _GPU_ROW
            self._rows.clear()
            self._totals.clear()
            return
        row = self._row.match(line.text) if self._is_inside else None
        if row is None:
            self._is_inside = self._is_inside and (not line.text.strip() or line.text.strip().startswith("-"))
            return
        name = row["name"]
        if any(kind.rows.search(name) for kind in _KINDS):
            shares = _SHARE.findall(row["rest"])
            gpu = float(shares[0]) / 100 if shares else 0.0
            columns = row.groupdict("0")
            own = float(columns.get("own", 0))
            whole = float(columns.get("total", own))
            self._rows[name] = _Row(own / 100, whole / 100, gpu, int(row["calls"]))

    def findings(self) -> tuple[Finding, ...]:
        """Return what takes most of the time, if it is one of the kinds."""
        found = ((self._share(kind), kind) for kind in _KINDS)
        (share, name), kind = max(found, key=lambda item: item[0][0])
        if share < POSSIBLE:
            return ()
        cpu_s, gpu_s = self._totals.get("CPU", 0.0), self._totals.get("CUDA")
        busy = gpu_s / cpu_s if gpu_s is not None and cpu_s > 0 else None
        waits = kind.share != "gpu"
        if (waits or kind.id == "D05") and busy is not None and busy >= BUSY:
            return ()
        limit = kind.likely if not waits or busy is not None else math.inf
        sure: Confidence = "likely" if share >= limit else "possible"
        whose = "the GPU's" if kind.share == "gpu" else "the processor's"
        return (
            Finding(
                id=kind.id,
                severity="warning",
                confidence=sure,
                title=f"{kind.text.title}: {share:.0%} of {whose} time in a profile",
                evidence=(Fact(f"{name}: {self._rows[name].calls} calls", self._rows[name].calls, "log"),),
                cause=kind.text.cause,
                fix=kind.text.fix,
                refuted_by=kind.refuted_by,
            ),
        )

    def _share(self, kind: _Kind) -> tuple[float, str]:
        rows = [(name, row) for name, row in self._rows.items() if kind.rows.search(name) and row.calls >= CALLS_MIN]
        if kind.id == "E01" and not any(_READS.search(name) for name, _ in rows):
            return 0.0, ""
        share, name = max(((float(getattr(row, kind.share)), name) for name, row in rows), default=(0.0, ""))
        # Kernels are different ones, while a function of the processor is within another one.
        return (min(1.0, sum(row.gpu for _, row in rows)) if kind.id in ("E03", "E06") else share), name


_READS = re.compile(r"^aten::(?:item|_local_scalar_dense|nonzero|is_nonzero)$")
_KINDS = (
    _Kind(
        "E01",
        re.compile(rf"^cuda(?:Stream|Device|Event)Synchronize$|{_READS.pattern}"),
        "own",
        LIKELY,
        Text(
            "The loop waits for the GPU in every step",
            "The script reads single values from the GPU: .item(), float(loss), if tensor:, print, nonzero or a mask as an "
            "index. Each read waits until the GPU has done all that was queued, and the GPU then waits for new work.",
            "total += loss.detach()  # add up on the GPU, and read once every 100 steps\n"
            "torch.cuda.set_sync_debug_mode('warn')  # names each line that waits",
        ),
        "The profile holds an evaluation, or the wait is the only one of the step.",
    ),
    _Kind(
        "E02",
        re.compile(r"^cudaLaunchKernel"),
        "own",
        LAUNCHES_LIKELY,
        Text(
            f"{SMALL_STEPS.title}: starting the kernels takes long",
            SMALL_STEPS.cause,
            SMALL_STEPS.fix,
        ),
        "The profile holds the first steps, which compile and warm up.",
    ),
    _Kind(
        "D01",
        re.compile(r"DataLoader.{0,60}__next__|^enumerate\(DataLoader\)#.{1,60}\.\.\.$"),  # torch cuts long names
        "total",
        LIKELY,
        WAITS_FOR_DATA,
        "The profile began with the loader's first batches.",
    ),
    _Kind(
        "E03",
        re.compile(
            r"^(?:ampere|volta|turing|hopper|ada|sm\d\d\w?|cutlass\w{0,20}?_simt)_?s?sgemm_(?!\w{0,40}(?:tf32|tensorop))|"
            r"_xmma_\w{1,40}_f32f32_f32f32|_scudnn_"
        ),
        "gpu",
        LIKELY,
        Text(
            "Matrices are multiplied in float32, without tensor cores",
            "These kernels (sgemm, f32f32) use the ordinary cores. Tensor cores are several times as fast: in TF32 or bfloat16 "
            "from the A100 and the RTX 30 series on, in float16 from the V100 and the T4 on.",
            'torch.set_float32_matmul_precision("high")  # TF32\n'
            'with torch.autocast("cuda", dtype=torch.bfloat16): ...  # or bfloat16, with half the memory',
        ),
        "The model needs full float32, or the GPU has no tensor cores.",
    ),
    _Kind(
        "D05",
        re.compile(r"^Memcpy HtoD \(Pageable|^Memcpy HtoD(?! \()"),
        "gpu",
        LIKELY,
        Text(
            "Copies to the GPU take long",
            "Pageable memory is copied in two steps, and the GPU waits for it.",
            "DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)",
        ),
        "The copies run alongside the GPU's work, in another stream.",
    ),
    _Kind(
        "E06",
        re.compile(r"^nccl(?:Dev)?Kernel(?!_?SendRecv)|^nccl:(?!send|recv)"),
        "gpu",
        NCCL_LIKELY,
        COMMUNICATES,
        "It runs alongside the GPU's own work, or one rank is late and the others wait for it.",
    ),
)
