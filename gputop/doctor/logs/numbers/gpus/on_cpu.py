"""A training that says it runs on the CPU, or that it uses no GPU memory, on a machine whose GPUs its log shows. Pure."""

from __future__ import annotations

import re

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

TRAINED_MIN = 3
"""At least this many lines print a loss (our choice)."""
WITHOUT_MEMORY_MIN = 5
"""At least this many lines say that no GPU memory is in use, and none says otherwise (our choice)."""
_DEVICE = (
    r"device|dispositivo|ger(?:ä|ae)t|appareil|p[ée]riph[ée]rique|cihaz|ayg[ıi]t|urz[ąa]dzenie|устройство|apparaat|enhet|设备|"
    r"デバイス"
)
_ON_CPU = re.compile(
    rf"(?i)(?<![a-z_.])(?:{_DEVICE})[\"']?(?:\s?[:=]\s?|\s)(?:torch\.)?(?:device\()?(?:type=)?[\"']?cpu\b(?![:.]\d)"
    r"|\busing cpu device\b"  # Stable-Baselines3
    r"|\b(?:train(?:ing|s)?|running|runs|falling back) (?:on|to) (?:the )?cpu\b"
    r"|\b(?:resnet|vit|bert|gpt|llama|net|model|unet|cnn|lstm|mlp)\w{0,12} on cpu\b"
    r"|\btorch-\S{1,20}\+cu\d{2,4} CPU \("  # Ultralytics, with a torch that supports CUDA
    r"|\b(?:enabled|'cuda'), but CUDA is not available"  # torch's GradScaler and autocast, which the script asked for
    r"|\b(?:cuda|gpu)(?:[ ._]is)?[ ._]available(?:\(\))?[\"']?\s?(?:[:=]|->)\s?False\b"
)
_WANTS_CUDA = re.compile(r"\btorch-\S{1,20}\+cu\d{2,4} CPU \(|\b(?:enabled|'cuda'), but CUDA is not available")
_ON_CUDA = re.compile(rf"(?i)(?<![a-z_.])(?:{_DEVICE})[\"']?(?: [a-zé]{{1,12}})?\s?[:=]?\s?[\"']?cuda\b")
_GPUS = re.compile(
    r"(?i)(?:--gres=|--gpus?(?:-per-node|-per-task)?=|gres/)(?:gpu[:=])?(?:[a-z][\w-]{1,12}:)?(\d{1,2})\b"
    r"|(?<![\w.])([1-9]\d?) ?x? ?NVIDIA|(?<![a-z])GPUs? (?:assigned|allocated|requested|asignadas|attribués?|zugewiesen|"
    r"assegnate|przydzielone|atribuídas)\b[^:=|]{0,40}[:=] ?([1-9]\d?)\b(?! ?[%MG.])"
    r"|'GPU': ([1-9]\d?)\.0"  # Ray's resources
)
_OF_ANOTHER = re.compile(
    r"(?i)\b(?:offload|ema|generator|buffer|storage|encoder|actors?|workers?|checkpoint|ckpt|index|policy|data|eval|val|test|"
    r"map_location|faiss|kv|cache|loader|optimizer|teacher|metrics?|sampler|env)\w{0,12}\b"
)
"""What else may be on the CPU: not the model that is trained."""
_MEANT = re.compile(
    r"(?i)--device[ =]cpu|--cpu\b|--no[-_]cuda|\bforced\b|\brequested\b|\bon purpose\b|faster on (?:the )?cpu|mlppolicy|"
    r"xgboost|tree_method|smoke test"
)
_OTHER = re.compile(r"(?i)\b(?:mps|xpu|rocm|hip|jax|metal)\b")
"""Other accelerators than those of NVIDIA."""
_NAMED = re.compile(
    r"^(?:GPU \d{1,3}: \S.{0,80}\(UUID: |\[\d{1,2}\] (?:NVIDIA|Tesla|Quadro|GeForce) |NVIDIA \w[^,]{1,60}, \d[\d.]{1,12}, |"
    r"\|\s{1,4}\d{1,2}\s{1,4}(?:NVIDIA|Tesla|Quadro|GeForce) )"
)
_MEMORY = re.compile(
    r"(?i)(?:\b(?:mem(?:ory)?|vram)[ _]?(?:gpu|cuda)?|\b(?:gpu|cuda)[ _]?mem(?:ory)?)(?:[ _](?:used|allocated|alloc|peak|max))?"
    r"[ :=]{1,4}(\d{1,6}(?:\.\d{1,4})?) ?([MGmg](?:i?B|o)?)\b"
)


class OnCpu:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._trained = 0
        self._said = ""
        """The line that says so."""
        self._gpus = 0
        """How many GPUs the log speaks of."""
        self._named = 0
        self._is_without = self._is_meant = self._has_other = False
        """Whether a job requested no GPU, a setting chooses the CPU, and the script speaks of another accelerator."""
        self._wants_cuda = self._says_cuda = False
        """Whether the script asked for CUDA in vain, and whether it says that it has it."""
        self._without_memory, self._uses_memory = 0, False

    def read(self, line: Line) -> None:
        """Take the next line."""
        text, lower = line.text, line.lower
        self._trained += self._trained < TRAINED_MIN and "loss" in lower
        if "cpu" in lower or "cuda" in lower or "false" in lower:
            self._read_device(line)
        if "gpu" in lower or "nvidia" in lower or "vram" in lower or "mem" in lower:
            self._named += _NAMED.match(text) is not None
            gpus = _GPUS.search(text)
            if gpus is not None:
                number = int(next(group for group in gpus.groups() if group is not None))
                self._is_without = self._is_without or number == 0
                self._gpus = max(self._gpus, number)
            if ("gpu" in lower or "cuda" in lower or "vram" in lower) and (memory := _MEMORY.search(text)) is not None:
                self._uses_memory = self._uses_memory or float(memory[1]) > 0
                # A small model rounds to 0.0 GB.
                self._without_memory += memory[2][0] in "mM" or len(memory[1].partition(".")[2]) > 1

    def _read_device(self, line: Line) -> None:
        """Read which device a line says that the training uses."""
        text = line.text
        self._is_meant = self._is_meant or _MEANT.search(text) is not None
        self._has_other = self._has_other or _OTHER.search(text) is not None
        self._wants_cuda = self._wants_cuda or _WANTS_CUDA.search(text) is not None
        self._says_cuda = self._says_cuda or _ON_CUDA.search(text) is not None
        said = _ON_CPU.search(text) if not self._said and not line.is_of_evaluation else None
        if said is not None and (_WANTS_CUDA.search(text) or _OF_ANOTHER.search(text, 0, said.start()) is None):
            self._said = line.printed.strip()

    def findings(self) -> tuple[Finding, ...]:
        """Return that the run trains on the CPU although there are GPUs."""
        gpus = max(self._gpus, self._named)
        without = self._without_memory >= WITHOUT_MEMORY_MIN and not self._uses_memory
        if self._trained < TRAINED_MIN or self._uses_memory or self._is_meant or self._has_other or self._is_without:
            return ()
        if self._says_cuda:
            return (_not_moved(self._without_memory),) if without and not self._said else ()
        if not ((self._said and (gpus or without or self._wants_cuda)) or (gpus and without)):
            return ()
        facts = [Fact(self._said[:200], self._said, "log")] if self._said else []
        if without:
            facts.append(_without_memory(self._without_memory))
        if gpus:
            facts.append(Fact(f"the log speaks of {words.count(gpus, 'GPU')}", gpus, "log"))
        return (
            Finding(
                id="A12",
                severity="warning",
                confidence="likely" if self._said and gpus else "possible",
                title="Training runs on the CPU" + (f" beside {words.count(gpus, 'GPU')}" if gpus else ""),
                evidence=tuple(facts),
                cause="torch finds no GPU (a build for the CPU, a driver that is too old, a mask, a container or a job without "
                "one), and the script falls back to the CPU. Or a setting chooses the CPU.",
                fix='python -c "import torch; print(torch.__version__, torch.cuda.is_available())"\n'
                "gputop doctor --before  # on that machine: says why torch sees no GPU",
                refuted_by="The CPU is meant: for a test, or by a setting.",
            ),
        )


def _without_memory(lines: int) -> Fact:
    return Fact(f"GPU memory in use: 0, in {words.count(lines, 'line')}", 0, "log")


def _not_moved(lines: int) -> Finding:
    return Finding(
        id="A13",
        severity="warning",
        confidence="likely",
        title="The script has a GPU, but the training uses none of its memory: the model is not on it",
        evidence=(_without_memory(lines),),
        cause="The script chooses the device, but neither the model nor the batches were moved to it: both stay on the CPU, "
        "where all of the work is done.",
        fix="model.to(device)                          # in place: a module keeps its parameters\n"
        "x, y = x.to(device), y.to(device)         # not in place: assign the results",
        refuted_by="The printed memory is that of another GPU.",
    )
