"""What slows a GPU down while it works: heat (I01), power (I02), locked clocks (I07)."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding, Severity
from gputop.doctor.rules.machine.cards import cards, each_card, finding_on
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Device

THERMAL_SHARE = 0.05
"""Share of 60 s (docs/rules.md#i01)."""
REASON_SHARE = 0.5
"""If the driver has no counter, a throttle reason must be set in half of the busy readings."""
THERMAL_REASONS = ("sw_thermal_slowdown", "hw_thermal_slowdown")
CLOCK_LOSS_SHARE = 0.1
"""Above this the clock loss is a warning: a 20% lower clock was measured to cost 5% of speed (docs/rules.md#i01)."""
LIMIT_SHARE = 0.9
"""An enforced limit below this share of the default, or of its peers' limits (docs/rules.md#i02)."""
CAPPED_POWER_SHARE = 0.8
LOCKED_CLOCK_SHARE = 0.85
LOCKED_REASON_SHARE = 0.9
"""Clocks below 0.85 of the maximum with "applications_clocks_setting" set in nearly all readings (docs/rules.md#i07)."""
HOLD_S = 5.0
"""Shorter spells are not reported (an estimate)."""


def _clock(evidence: Evidence, device: Device) -> tuple[float | None, list[Fact]]:
    """Return the share of the maximum clock that is lost under load, with the evidence."""
    mean, most = evidence.history.mean_at_work(device.uuid, "sm_clock_mhz"), device.sm_clock_max_mhz
    if mean is None or not most or not most > 0:
        return None, []
    loss = max(0.0, 1 - mean / most)
    text = f"SM clock under load: {mean:.0f} of {most:.0f} MHz, {loss * 100:.0f}% less"
    return loss, [Fact(text, round(mean), "NVML")]


def thermal(evidence: Evidence) -> dict[str, Judgement]:
    """I01: heat slows a GPU down while it works."""
    return each_card(evidence, _thermal)


I01 = Rule(
    id="I01",
    order=2200,
    family="hardware",
    title="A GPU is throttled by heat",
    severities=("warning", "info"),
    confidences=("likely",),
    needs=("NVML thermal counters or throttle reasons", "clocks"),
    window_s=60.0,
    every_s=RARELY_S,
    threshold=(f"thermal time above {THERMAL_SHARE:.0%} of up to 60 s under load, or a thermal reason in half of the readings"),
    estimated=True,
    hides=("F02",),
    mechanism="A GPU that gets too hot lowers its clocks to protect itself. In DDP the other ranks wait for it.",
    signature="Thermal slowdown takes more than 5% of the last minute under load.",
    look_alike="A short peak before the fans catch up; a clock loss below 10% (reported as information).",
    fix="Improve the airflow, or lower the power limit with nvidia-smi -pl.",
    judge_machine=thermal,
)


def _thermal(evidence: Evidence, device: Device) -> Judgement:
    history = evidence.history
    share = history.share_throttled(device.uuid, "thermal_ns")
    counted = share is not None and share > THERMAL_SHARE
    reasons = history.share_with_reason(device.uuid, THERMAL_REASONS) if share is None else 0.0
    if not (counted or (share is None and reasons >= REASON_SHARE)):
        return None
    if history.mean_at_work(device.uuid, "utilization_percent") is None:
        return None
    held = share if counted and share is not None else reasons
    how = "of the last minute, according to the driver's counter" if counted else "of the readings under load"
    facts = [Fact(f"heat held the clocks down for {held * 100:.0f}% {how}", round(held, 3), "NVML")]
    if device.temperature_c is not None:
        limit = f", slows down at {device.temperature_slowdown_c:.0f} °C" if device.temperature_slowdown_c is not None else ""
        facts.append(Fact(f"{device.temperature_c:.0f} °C{limit}", device.temperature_c, "NVML"))
    loss, clock = _clock(evidence, device)
    limit_w = device.power_limit_w or device.power_default_limit_w
    watts = f"{limit_w * 0.85:.0f}" if limit_w else "WATTS"
    lower = f"sudo nvidia-smi -i {device.index} -pl {watts}  # less power, less heat"
    texts = (
        "The GPU gets too hot and lowers its clocks to protect itself. Usual reasons: airflow, dust, a fan, a warm room, "
        "or neighboring cards in a dense chassis. In DDP the other ranks wait for it.",
        "\n".join(
            [
                "# check the airflow first: fans, dust, distance to the next card, room temperature",
                f"nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i {device.index}",
                *([lower] if limit_w else []),
            ]
        ),
        "The share falls below 5% of a minute once the fans catch up.",
    )
    severity: Severity = "warning" if loss is None or loss >= CLOCK_LOSS_SHARE else "info"
    title = f"{words.gpu(device)} is throttled by heat"
    if loss is not None and loss >= CLOCK_LOSS_SHARE:
        title += f": clocks {loss * 100:.0f}% lower"
    return Suspicion(finding_on(evidence, device, "I01", severity, title, [*facts, *clock], texts), HOLD_S)


def power(evidence: Evidence) -> dict[str, Judgement]:
    """I02: a power limit below the default or the peers', the power brake, or a cap far below the limit."""
    return each_card(evidence, _power)


I02 = Rule(
    id="I02",
    order=2201,
    family="hardware",
    title="A GPU is not given enough power",
    severities=("error", "warning", "info"),
    confidences=("likely",),
    needs=("NVML power limits, power and throttle reasons",),
    window_s=60.0,
    every_s=RARELY_S,
    threshold=(
        f"a limit below {LIMIT_SHARE} of its peers' or the default, the power brake above {THERMAL_SHARE:.0%} of "
        f"the time, or a cap below {CAPPED_POWER_SHARE} of the limit, on a GPU in use"
    ),
    estimated=True,
    hides=("F02",),
    mechanism=(
        "The power limit was lowered, the power supply signals that it cannot deliver enough (power brake), or the driver "
        "caps a card far below its limit."
    ),
    signature=(
        "A limit below the default or the peers', the hardware's power brake, or a cap while the GPU draws far "
        "less than its limit."
    ),
    look_alike="A power cap at full load, which is normal; a limit that somebody lowered on purpose.",
    fix="Restore the limit with nvidia-smi -pl, and check the power cables and the power supply.",
    judge_machine=power,
)


def _power(evidence: Evidence, device: Device) -> Judgement:
    if not evidence.owners(device.uuid):
        return None
    brake = evidence.history.share_throttled(device.uuid, "power_brake_ns")
    braked = (brake is not None and brake > THERMAL_SHARE) or (
        brake is None and evidence.history.share_with_reason(device.uuid, ("hw_power_brake_slowdown",)) >= REASON_SHARE
    )
    if braked:
        return Suspicion(_power_brake(evidence, device, brake), HOLD_S)
    limit, default = device.power_limit_w, device.power_default_limit_w
    peers = [d.power_limit_w for d in cards(evidence) if d.uuid != device.uuid and d.name == device.name and d.power_limit_w]
    usual = median(peers) if peers else None
    if limit and usual and limit < LIMIT_SHARE * usual:
        return Suspicion(_limited(evidence, device, limit, usual, default, alone=True), HOLD_S)
    first = not any(d.index < device.index and evidence.owners(d.uuid) and d.name == device.name for d in cards(evidence))
    if limit and default and limit < LIMIT_SHARE * default and first:
        return Suspicion(_limited(evidence, device, limit, usual, default, alone=False), HOLD_S)
    return _capped(evidence, device)


def _limited(
    evidence: Evidence, device: Device, limit: float, usual: float | None, default: float | None, *, alone: bool
) -> Finding:
    facts = [Fact(f"power limit of {words.gpu(device)}: {limit:.0f} W", limit, "NVML")]
    if usual is not None:
        facts.append(Fact(f"its peers: {usual:.0f} W", usual, "NVML"))
    if default is not None:
        facts.append(Fact(f"default: {default:.0f} W", default, "NVML"))
    facts += _clock(evidence, device)[1]
    wanted = default or usual or limit
    texts = (
        "Somebody set a lower limit on this GPU only, or the machine enforces one (a cable or slot that delivers "
        "too little power)."
        if alone
        else "Somebody lowered the power limit. All GPUs of this model have it, so it is probably intentional.",
        f"sudo nvidia-smi -i {device.index} -pl {wanted:.0f}\n# if the limit drops again: check the power cables, the power "
        "supply and the BMC's cap",
        "The limit is intentional (heat, power supply, cost).",
    )
    title = (
        f"{words.gpu(device)} may draw {limit:.0f} W, {f'its peers {usual:.0f}' if alone else f'by default {default:.0f}'} W"
    )
    return finding_on(evidence, device, "I02", "warning" if alone else "info", title, facts, texts)


def _power_brake(evidence: Evidence, device: Device, share: float | None) -> Finding:
    text = "the hardware's power brake is on" + (f" for {share * 100:.0f}% of the last minute" if share is not None else "")
    texts = (
        "The power supply or the board signals that it cannot deliver enough power (hw_power_brake_slowdown), so the GPU "
        "halves its clocks at once.",
        f"nvidia-smi -q -d POWER,PERFORMANCE -i {device.index}\n# check the power cables, redundant power supplies and the "
        "BMC's power cap",
        "The signal disappears within a minute.",
    )
    title = f"The power supply brakes {words.gpu(device)}"
    return finding_on(evidence, device, "I02", "error", title, [Fact(text, share, "NVML"), *_clock(evidence, device)[1]], texts)


def _capped(evidence: Evidence, device: Device) -> Judgement:
    """Judge a power cap: one at full power is normal, one far below the limit is not."""
    share, limit = evidence.history.share_with_reason(device.uuid, ("sw_power_cap",)), device.power_limit_w
    if share < REASON_SHARE or not limit:
        return None
    mean = evidence.history.mean_at_work(device.uuid, "power_w")
    if not mean or mean >= CAPPED_POWER_SHARE * limit:
        return None
    loss, clock = _clock(evidence, device)
    if loss is None or loss < CLOCK_LOSS_SHARE:
        return None
    facts = [
        Fact(f"sw_power_cap in {share * 100:.0f}% of the readings under load", round(share, 3), "NVML"),
        Fact(f"it draws {mean:.0f} of {limit:.0f} W", round(mean), "NVML"),
        *clock,
    ]
    texts = (
        "The driver caps the clocks although the GPU draws far less than its limit: the card itself gets too little power.",
        f"nvidia-smi -q -d POWER,PERFORMANCE -i {device.index}\n# check this card's power cables and the power supply",
        "The GPU draws its full power in short peaks that the mean hides.",
    )
    title = f"{words.gpu(device)} is capped at {mean:.0f} W of {limit:.0f} W"
    return Suspicion(finding_on(evidence, device, "I02", "warning", title, facts, texts), HOLD_S)


def locked_clocks(evidence: Evidence) -> dict[str, Judgement]:
    """I07: the clocks are set (nvidia-smi -lgc or -ac) far below the GPU's maximum."""
    held = []
    for device in cards(evidence):
        share = evidence.history.share_with_reason(device.uuid, ("applications_clocks_setting",))
        if device.state != "ok" or share < LOCKED_REASON_SHARE:
            continue
        loss, clock = _clock(evidence, device)
        if loss is not None and loss >= 1 - LOCKED_CLOCK_SHARE:
            held.append((device, share, loss, clock))
    if not held:
        return {}
    device, share, loss, clock = max(held, key=lambda item: item[2])
    devices = [item[0] for item in held]
    listed = ",".join(str(item.index) for item in devices)
    text = f"applications_clocks_setting in {share * 100:.0f}% of the readings under load"
    texts = (
        "Somebody set the clocks by hand (nvidia-smi -lgc, -ac), or they are the board's default application clocks. They "
        "hold the GPU below its maximum.",
        f"sudo nvidia-smi -i {listed} -rgc\nsudo nvidia-smi -i {listed} -rac",
        "Somebody set the clocks on purpose (repeatable measurements).",
    )
    title = f"Clocks of {words.gpus(devices)} are held {loss * 100:.0f}% below the maximum"
    finding = finding_on(evidence, device, "I07", "warning", title, [*clock, Fact(text, round(share, 3), "NVML")], texts)
    return {"machine": Suspicion(replace(finding, devices=tuple(item.uuid for item in devices)), HOLD_S)}


I07 = Rule(
    id="I07",
    order=2203,
    family="hardware",
    title="Clocks are locked low",
    severities=("warning",),
    confidences=("likely",),
    needs=("NVML clocks and throttle reasons",),
    window_s=60.0,
    every_s=RARELY_S,
    threshold=(
        f"average SM clock under load below {LOCKED_CLOCK_SHARE} of the maximum, with applications_clocks_setting in "
        f"{LOCKED_REASON_SHARE:.0%} of the readings"
    ),
    estimated=True,
    hides=("F02",),
    mechanism="Somebody set the clocks by hand (nvidia-smi -lgc or -ac). They hold the GPU below its maximum.",
    signature=(
        "The clock under load stays below 85% of the maximum, and the driver names the application clock setting as the reason."
    ),
    look_alike="Clocks that are locked on purpose, for repeatable measurements; heat (I01) and power (I02).",
    fix="Reset them with nvidia-smi -rgc and nvidia-smi -rac.",
    judge_machine=locked_clocks,
)
