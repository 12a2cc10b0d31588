"""Which step, batch and epoch a printed line states, in the words and brackets that people and projects use. Pure."""

from __future__ import annotations

import re
from dataclasses import replace

from gputop.tracking.printed.names import EVALUATION, Printed
from gputop.tracking.printed.origins.prefixes import prefix_end

# Repeats have bounds: a search is linear in the length of the line, which a training may be waiting to print.
_STEP = re.compile(
    r"(?<![\w/])(?<!episode )(?<!warmup )(?<!max )"
    r"(?:(?:global|train|training|acc|cur)[ _])?(?:step|iteration|iter|it|num_updates|updates?)s?(?:/(?:total|max)_?steps?)?"
    r"\s{0,20}[:=#]?\s{0,20}\[?\s{0,20}(\d{1,3}(?:[,_]\d{3}){1,4}(?!\d)|\d{1,15})(?:((?-i:[KM]))|\s{0,20}(?:/|of)\s{0,20}(\d{1,3}(?:[,_]\d{3}){1,4}(?!\d)|\d{1,15}))?(?![\w%]|\.\d|,\d{3})",
    re.IGNORECASE,
)
_THOUSANDS = {"K": 1000, "M": 1_000_000}
"""LeRobot's short form of numbers."""
_OF_CLU = re.compile(r"logging_writer\.py:\d{1,9}\] \[(\d{1,15})\] ")
_BATCHES = re.compile(r"(?<![\w/.])(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s+batches\b", re.IGNORECASE)
_EPOCH_AND_BATCH = re.compile(
    r"\[\s{0,20}(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s{0,20}\]"
    r"\s{0,20}\[\s{0,20}(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})\s{0,20}\]"
)
_OF_MMENGINE = re.compile(
    r"(?<![\w.])(?:Epoch|Iter)\((train|val|test)\)\s{1,9}(?:\[\s{0,9}(\d{1,15})\]\s{0,9})?"
    r"\[\s{0,9}(\d{1,15})\s{0,9}/\s{0,9}(\d{1,15})\s{0,9}\]"
)
_TRAINING = "train"
_OF_TIMM = re.compile(
    r"(?<![\w.])Train:\s{1,9}(\d{1,15})(?:/(\d{1,15}) \(\s{0,3}\d{1,3}%\))? \[\s{0,9}(\d{1,15})/(\d{1,15}) \("
)
_OF_WENET = re.compile(r"(?:DEBUG|INFO) (TRAIN|CV) Batch (\d{1,15})/(\d{1,15}) (?=loss )")
"""WeNet's epoch and batch: "TRAIN Batch 4/200", and in its evaluation "CV Batch 4/0"."""
_OF_ESPNET = re.compile(r"(?<![\w.])(\d{1,9})epoch:(?:train|valid):\d{1,15}-(\d{1,15})batch: ")
"""ESPnet's epoch, and the batches that its line is about."""
_IN_CHINESE = re.compile(r"训练次数\s{0,3}:?\s{0,3}(\d{1,15})(?![\w.])")
"""How often the model was trained, in the many scripts that began as a copy of a tutorial."""
_OF_TUTORIAL = re.compile(
    r"(?<![\w\]])\[ {0,9}(\d{1,6}), {0,9}(\d{1,9})\](?= {0,3}:? {1,3}(?:\w{1,20}[ _])?loss\b)", re.IGNORECASE
)
"""The epoch and the batch in PyTorch's tutorial on CIFAR, and in the many scripts that began as a copy of it."""
_OF_FAIRSEQ = re.compile(
    r"\| epoch (\d{1,9})(?: \| valid on '[^']{1,60}' subset)?:?\s{1,4}(\d{1,15}) / (\d{1,15})(?= [a-z]\w{0,30}=)"
)
"""Fairseq's oldest form, without a bar: "| epoch 010   2000 / 8223 loss=1.2"."""
_OF_WHOLE_TEST = re.compile(r"\s{0,3}\* (?:acc|prec)@1[ :]", re.IGNORECASE)
"""The accuracy over all images, below the last batch of the test in PyTorch's example on ImageNet: " * Acc@1 69.5"."""
_VALID_OF_FAIRSEQ = re.compile(r"\| epoch \d{1,9} \| valid on '")
_OF_OPENNMT = re.compile(r"(?<!\S)Epoch {1,3}(\d{1,9}), {1,9}(\d{1,12})/ {0,9}(\d{1,12}); ")
_OF_KERAS_RL = re.compile(r"(?:^|\s)(\d{1,15})/(\d{1,15}): episode: \d{1,15}\b")
_OF_EPOCH = re.compile(r"epochs?\s{0,3}[:=#]?\s{0,3}$", re.IGNORECASE)
_BATCH = re.compile(
    r"(?<![\w/])(?:batch\s{0,20}[:=#]?\s{0,20}[\[(]?|\]\s{0,20}\[|\[)"
    r"\s{0,20}(\d{1,15})\s{0,20}/\s{0,20}(\d{1,15})(?![\d/]|[-T, ]{1,3}\d{1,2}:\d\d(?:[:.]\d\d)?(?!\s{0,3}<|[\d:]))"
    r"\s{0,20}[\])]?(?![\w.%]|\s{0,20}\()",
    re.IGNORECASE,
)
"""A bracket may also be that of a date: "[2023/03/14]", "[03/14 09:26:53]". In fastai's bar, "<" is behind the time."""
_BEHIND_EPOCH = re.compile(r"\]?\s?\((\d{1,12})/(\d{1,12})\)(?!\w)")
"""The batches in parentheses behind those of the epoch: "Epoch:[1/2](100/5000)"."""
EPOCH = re.compile(
    r"(?<![\w/])epochs?\s{0,20}[:=#]?\s{0,20}[\[(]?\s{0,20}"
    r"(\d{1,15}(?:\.\d{1,15})?)(?:\s{0,20}(?:/|of)\s{0,20}(\d{1,15}))?(?![\w%]|\.\d)",
    re.IGNORECASE,
)
_BATCH_OF_EPOCH = re.compile(
    r"(?<![\w/])epochs?[\s:=#]{0,3}\[?\s{0,3}\d{1,9}(?:\s?(?:/|of)\s?\d{1,9})?\]?[\s,;:|-]{1,5}"
    r"(?:mini-?)?batch(?:[_ ]?(?:id|idx|index|no\.?|number)[\s:=#]{0,3}[\[(]?|[\s:=#]{0,3}[\[(])\s{0,9}(\d{1,12})[\])]?"
    r"(?![\w.%\])]|\s?(?:/|of\b)|\s{1,3}\d)",
    re.IGNORECASE,
)
"""A batch without the number of all of them, behind its epoch, as MXNet prints them: "Epoch[0] Batch [250]". A bare number may
be the size of a batch: ``rising`` decides."""
_SINCE_BATCH = re.compile(r"(?<=\bBatch )\[\d{1,12}-(\d{1,12})\]")
"""The batches since the line before: "Epoch[0] Batch [230-250]"."""
_SHORT_EPOCH = re.compile(
    r"(?<![\w/])ep\s?[:=#]?\s{0,3}(\d{1,9})(?:\s?/\s?(\d{1,9}))?(?=[\s|,:\]]{1,4}(?:it|iter|step|batch)[\s:=]{0,3}\[?\s{0,9}\d{1,12}\s?/)",
    re.IGNORECASE,
)
"""Only before a count of batches, as in "ep 3 | batch 5/100": "ep 3" alone may be an episode."""
BAR = re.compile(
    r"(?:(?:\|\s{0,20}|^\s{0,20})(?=\d{1,15}/\d{1,15}\s{0,20}(?:\[\d{1,9}:|[━\[=]))|[━╸╺]\s{1,3}(?=\d{1,15}/\d{1,15}\s{1,3}[\d-])|"
    r"\d%\s{1,3}(?=\d{1,15}/\d{1,15} \[\d{1,9}:)|\|[ #∙█▉▊▋▌▍▎▏]{8,80}\| \((?=\d{1,15}/\d{1,15}\)))"
    r"(\d{1,15})/(\d{1,15})"
)
"""A progress bar's count: after the bar of tqdm, which may be only a percentage, before that of Keras, after that of rich, and
in parentheses after that of the package ``progress``."""
ENDLESS_BAR = re.compile(r"(?:^|[:\s])(\d{1,15})it \[\d{1,9}:")
"""tqdm's count of something without a length."""

_AT_STEP = re.compile(
    r"(?<![\w/])(?:at|after) (?:epoch\s{1,9}\d{1,9}, ?)?(?:(?:global|training)[ _])?(?:step|iteration|iter|update)"
    r"[\s:=#]{1,20}(\d{1,15})(?![\w.%/]|\s?/)",
    re.IGNORECASE,
)
"""When an evaluation took place: "Validation result at epoch 2, step 800"."""


def step_of_evaluation(line: str) -> int | None:
    """Return the step of the training at which an evaluation took place, if its line says so."""
    found = _AT_STEP.search(line)
    return int(found[1]) if found is not None else None


def evaluation_of(line: str) -> str | None:
    """Return the first letter of "validation", "evaluation" or "test" if a line is about one; None for any other line."""
    found = EVALUATION.match(line) or _behind_a_prefix(line) or (_OF_MMENGINE.search(line) if "]" in line else None)
    if found is None and (
        (" CV Batch " in line and _OF_WENET.search(line)) or (" valid on '" in line and _VALID_OF_FAIRSEQ.search(line))
    ):
        return "v"
    if found is None and "@1" in line and _OF_WHOLE_TEST.match(line):
        return "t"
    kind = found[1][0].lower() if found is not None else "t"
    return kind if found is not None and found[1] != _TRAINING else None


def _behind_a_prefix(line: str) -> re.Match[str] | None:
    end = prefix_end(line)
    return EVALUATION.match(line[end:]) if end else None


def counts(line: str, *, evaluation: bool) -> Printed:
    """Return the step and the epoch of a line, without metrics; ``evaluation``: its counts are not those of the training."""
    wenet = _OF_WENET.search(line) if " Batch " in line else None
    if wenet is not None:
        of_epoch = Printed(epoch=float(wenet[2]))
        return of_epoch if evaluation else replace(of_epoch, step=int(wenet[3]), batch=True)
    fairseq = _OF_FAIRSEQ.search(line) if " / " in line and "num_updates" not in line else None
    if fairseq is not None:
        of_epoch = Printed(epoch=float(fairseq[1]))
        return of_epoch if evaluation else replace(of_epoch, step=int(fairseq[2]), steps=int(fairseq[3]), batch=True)
    espnet = _OF_ESPNET.search(line) if "epoch:" in line else None
    if espnet is not None:
        of_epoch = Printed(epoch=float(espnet[1]))
        return of_epoch if evaluation else replace(of_epoch, step=int(espnet[2]), batch=True)
    opennmt = _OF_OPENNMT.search(line) if "; " in line else None
    if opennmt is not None and not evaluation:
        return Printed(epoch=float(opennmt[1]), step=int(opennmt[2]), steps=int(opennmt[3]), batch=True)
    if (keras_rl := _OF_KERAS_RL.search(line) if ": episode: " in line else None) is not None:
        return Printed(step=int(keras_rl[1]), steps=int(keras_rl[2]))
    epoch = EPOCH.search(line) or _SHORT_EPOCH.search(line)
    bracketed = "]" in line
    mmengine = _OF_MMENGINE.search(line) if bracketed else None
    both = _EPOCH_AND_BATCH.search(line) or _OF_TIMM.search(line) if bracketed else None
    first: list[str] = []
    if mmengine is not None and mmengine[2] is not None:
        _, *first, batch, batches = mmengine.groups()
    elif both is not None and (epoch is None or epoch.start() < both.start() < epoch.end()):
        *first, batch, batches = both.groups()
    if first:
        of_epoch = Printed(epoch=float(first[0]), epochs=_int(first[1]) if first[1:] else None)
        return of_epoch if evaluation else replace(of_epoch, step=int(batch), steps=int(batches), batch=True)
    found = Printed(epoch=float(epoch[1]), epochs=_int(epoch[2])) if epoch is not None else Printed()
    if evaluation:
        return found
    step = _STEP.search(line)
    if step is not None:
        return replace(found, step=_whole(step[1]) * _THOUSANDS.get(step[2], 1), steps=_int(step[3]))
    if (batch := _BATCHES.search(line) or _BATCH.search(line)) is not None:
        is_epoch = _OF_EPOCH.search(line, max(0, batch.start() - 20), batch.start())
        if is_epoch and (inner := _BEHIND_EPOCH.match(line, batch.end())) is not None:
            return replace(found, step=int(inner[1]), steps=int(inner[2]), batch=True)
        if is_epoch and (bar := BAR.search(line, batch.end())) is not None:
            return replace(found, step=int(bar[1]), steps=int(bar[2]), bar=True)
        within = mmengine is None and not is_epoch
        return replace(found, step=int(batch[1]), steps=int(batch[2]), batch=within)
    if (bar := BAR.search(line)) is not None:
        return replace(found, step=int(bar[1]), steps=int(bar[2]), bar=True, batch=line.startswith(")", bar.end()))
    if (endless := ENDLESS_BAR.search(line)) is not None:
        return replace(found, step=int(endless[1]), bar=True)
    if (clu := _OF_CLU.search(line)) is not None:
        return replace(found, step=int(clu[1]))
    if epoch is not None and (alone := _SINCE_BATCH.search(line) or _BATCH_OF_EPOCH.search(line)) is not None:
        return replace(found, step=int(alone[1]), batch=True)
    if not line.isascii() and (chinese := _IN_CHINESE.search(line)) is not None:
        return replace(found, step=int(chinese[1]))
    tutorial = _OF_TUTORIAL.search(line) if bracketed and epoch is None else None
    return Printed(step=int(tutorial[2]), epoch=float(tutorial[1]), batch=True) if tutorial is not None else found


def _int(text: str | None) -> int | None:
    return _whole(text) if text is not None else None


def _whole(text: str) -> int:
    """Return a count, which may have separators: "1,200"."""
    return int(text.replace(",", ""))
