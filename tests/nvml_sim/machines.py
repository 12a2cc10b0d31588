"""Machines that other people captured: what each GPU answers when idle, what it refuses, and its driver.

Data, and one function that makes a scenario of it. The facts come from public captures of ``nvidia-smi -q`` (``origin`` names
project and file). Memory is in MiB, without that of captured processes; everything else is as in ``scenario.py``. ``None`` is
what the driver refuses. What a capture does not tell is as on an H100, unless NVIDIA's documentation rules it out for the
architecture: no energy counter before Volta, no averaged power before Ampere, no GPM before Hopper; of Kepler neither PCIe
throughput nor a process's utilization.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.nvml_sim.scenario import Scenario

MIB = 2**20
Readings = Mapping[str, float | None]

_TELEGRAF = "telegraf, plugins/inputs/nvidia_smi/testdata"
_EXPORTER = "nvidia_gpu_exporter, internal/captures"
_NETDATA = "netdata, collector/nvidia_smi/testdata"

_NO_ECC = dict.fromkeys(("ecc_corrected", "ecc_uncorrected"))
NO_REMAPPER = {f"remapped_{name}": None for name in ("correctable", "uncorrectable", "pending", "failed")}
NO_LINKS = dict.fromkeys(("nvlink_rx", "nvlink_tx", "nvlink_links"))
NO_THRESHOLDS = dict.fromkeys(("temperature_slowdown", "temperature_shutdown"))
"""From Ada on, nvidia-smi prints the distance to the limit (T.Limit) instead of the thresholds."""
_HOPPER_THRESHOLDS = {"temperature_slowdown": 89, "temperature_shutdown": 95}
"""As ``h100_in_a_vm`` answered, although nvidia-smi prints distances there, too."""
NO_UTILIZATION = dict.fromkeys(("utilization", "memory_utilization"))

# Per architecture. Boards with HBM override what they have more.
_PLAIN: Readings = {"gpm": 0, "mig_mode": None, "memory_temperature": None, **_NO_ECC, **NO_REMAPPER, **NO_LINKS}
_KEPLER: Readings = {
    **_PLAIN,
    **dict.fromkeys(
        ("power_fields", "power_instant", "energy_base", "pcie_counter_bits", "pcie_blocking", "process_utilization")
    ),
}
_PASCAL: Readings = {**_PLAIN, "power_fields": None, "power_instant": None, "energy_base": None, "pcie_counter_bits": None}
_VOLTA: Readings = {**_PLAIN, "power_fields": None, "power_instant": None, "pcie_counter_bits": None}
AMPERE: Readings = dict(_PLAIN)
_ADA: Readings = {**_PLAIN, **NO_THRESHOLDS}
_ECC: Readings = {"ecc_corrected": 0, "ecc_uncorrected": 0}
_REMAPPER: Readings = {f"remapped_{name}": 0 for name in ("correctable", "uncorrectable", "pending", "failed")}
_ASLEEP: Readings = {"performance_state": 8, "memory_clock": 405, "pcie_generation": 1}


def _readings(*shared: Readings, **own: float | None) -> Readings:
    merged: dict[str, float | None] = {}
    for readings in (*shared, own):
        merged.update(readings)
    return merged


@dataclass(frozen=True)
class Instance:
    """A MIG instance: its two ids, profile, and memory in MiB."""

    ids: tuple[int, int]
    profile: str
    total: float
    used: float


@dataclass(frozen=True)
class Machine:
    """One captured GPU."""

    name: str
    driver: str
    cuda: int
    origin: str
    capability: float
    memory: tuple[float, float, float] | None
    """Total, reserved and used, in MiB; None if refused."""
    readings: Readings
    instances: tuple[Instance, ...] = ()
    errors: Mapping[str, int] = field(default_factory=dict)
    """NVML's code by function."""

    @property
    def values(self) -> dict[str, float | None]:
        """The readings as the scenario has them; memory in bytes."""
        total, reserved, used = self.memory or (None, None, None)
        sizes = {"memory_total": total, "memory_reserved": reserved, "memory_used": used}
        return {
            "compute_capability": self.capability,
            **{name: None if size is None else size * MIB for name, size in sizes.items()},
            **self.readings,
        }


def scenario_of(machine: Machine) -> Scenario:
    """Return the machine, idle; start a reader of it with ``environment(path, driver=machine.driver)``."""
    scenario = Scenario().on_driver(machine.driver, machine.cuda).gpu(0, machine.name).set(0, **machine.values)
    for instance in machine.instances:
        total, used = instance.total * MIB / 2**30, instance.used * MIB / 2**30
        scenario.mig(0, instance.ids, instance.profile, total, used, None)
    for function, code in machine.errors.items():
        scenario.error(0, function, code)
    return scenario


MACHINES = {
    "gtx-1660-ti": Machine(
        "Graphics Device",  # the card was newer than its driver
        "418.43",
        10010,
        f"{_TELEGRAF}/gtx-1660-ti.xml",
        7.5,
        (5912, 0, 0),
        _readings(
            _VOLTA,
            _ASLEEP,
            power=8.93,
            power_limit=130,
            power_default_limit=130,
            fan=0,
            memory_utilization=1,
            temperature=40,
            temperature_shutdown=96,
            temperature_slowdown=93,
            persistence=0,
            sm_clock=300,
            sm_clock_max=2145,
            memory_clock_max=4001,
            pcie_generation_max=3,
        ),
    ),
    "quadro-p400": Machine(
        "Quadro P400",
        "418.43",
        10010,
        f"{_TELEGRAF}/quadro-p400.xml",
        6.1,
        (1998, 0, 0),
        _readings(
            _PASCAL,
            _ASLEEP,
            power=None,
            power_limit=None,
            power_default_limit=None,
            fan=34,
            memory_utilization=3,
            temperature=33,
            temperature_shutdown=103,
            temperature_slowdown=100,
            persistence=0,
            sm_clock=139,
            sm_clock_max=1252,
            memory_clock_max=2005,
            pcie_generation_max=3,
        ),
    ),
    "k80": Machine(
        "Tesla K80",
        "470.256.02",  # the captures are older; this is the last driver for it
        11040,
        "Sheffield HPC's pull request 1030; application clocks as NVIDIA's board specification has them, GPU Boost off",
        3.7,
        (11441, 0, 0),
        _readings(
            _KEPLER,
            _ECC,
            power=62,
            power_limit=149,
            power_default_limit=149,
            persistence=0,
            temperature=38,
            temperature_shutdown=93,
            temperature_slowdown=88,
            sm_clock=562,
            sm_clock_max=875,
            throttle_reasons=2,
            memory_clock=2505,
            memory_clock_max=2505,
            pcie_generation=3,
            pcie_generation_max=3,
        ),
    ),
    "k80-in-a-vm": Machine(
        "Tesla K80",
        "470.256.02",
        11040,
        "OpenMM's issue 2386: a cloud's, just woken; without power, which no capture shows, for boards that tell it of one GPU",
        3.7,
        (11441, 0, 0),
        _readings(
            _KEPLER,
            _ECC,
            utilization=100,
            power=None,
            power_limit=None,
            power_default_limit=None,
            persistence=0,
            temperature=62,
            temperature_shutdown=93,
            temperature_slowdown=88,
            sm_clock=562,
            sm_clock_max=875,
            throttle_reasons=0,
            memory_clock=2505,
            memory_clock_max=2505,
            pcie_generation=3,
            pcie_generation_max=3,
        ),
    ),
    "v100s": Machine(
        "Tesla V100S-PCIE-32GB",
        "460.73.01",
        11020,
        "Guance datakit, nvidia_smi's test of a machine with eight",
        7.0,
        (32510, 0, 0),
        _readings(
            _VOLTA,
            _ECC,
            power=61.47,
            power_limit=250,
            power_default_limit=250,
            temperature=57,
            memory_temperature=63,
            temperature_shutdown=90,
            temperature_slowdown=87,
            persistence=0,
            throttle_reasons=0,
            sm_clock=1410,
            sm_clock_max=1597,
            memory_clock=1107,
            memory_clock_max=1107,
            pcie_generation=3,
            pcie_generation_max=3,
        ),
    ),
    "gt-1030": Machine(
        "NVIDIA GeForce GT 1030",
        "470.74",
        11040,
        f"{_TELEGRAF}/gt-1030.xml",
        6.1,
        (1998, 0, 875),
        _readings(
            _PASCAL,
            power=None,
            power_limit=30,
            power_default_limit=30,
            fan=35,
            memory_utilization=3,
            persistence=0,
            temperature=36,
            temperature_shutdown=102,
            temperature_slowdown=99,
            sm_clock=1265,
            sm_clock_max=1949,
            memory_clock=3003,
            memory_clock_max=3004,
            pcie_generation=3,
            pcie_generation_max=3,
            pcie_width=4,
            pcie_width_max=4,
        ),
    ),
    "p100": Machine(
        "Tesla P100-PCIE-16GB",
        "510.47.03",
        11060,
        f"{_NETDATA}/tesla-p100.xml",
        6.0,
        (16384, 103, 0),
        _readings(
            _PASCAL,
            _ECC,
            power=26.16,
            power_limit=250,
            power_default_limit=250,
            persistence=0,
            temperature=38,
            temperature_shutdown=85,
            temperature_slowdown=82,
            sm_clock=405,
            sm_clock_max=1328,
            memory_clock=715,
            memory_clock_max=715,
            pcie_generation=3,
            pcie_generation_max=3,
        ),
    ),
    "a100-40gb-mig": Machine(
        "NVIDIA A100-SXM4-40GB",
        "510.47.03",
        11060,
        f"{_NETDATA}/a100-sxm4-mig.xml",
        8.0,
        (40960, 605, 38),
        _readings(
            AMPERE,
            NO_UTILIZATION,
            power=66.92,
            power_limit=400,
            power_default_limit=400,
            persistence=0,
            throttle_reasons=0,
            temperature=36,
            temperature_shutdown=92,
            temperature_slowdown=89,
            memory_temperature=44,
            sm_clock=1410,
            sm_clock_max=1410,
            memory_clock=1215,
            memory_clock_max=1215,
            pcie_generation=4,
            pcie_generation_max=4,
            nvlink_links=12,
            nvlink_rx=0,
            nvlink_tx=0,
        ),
        (Instance((1, 0), "3g.20gb", 19968, 19), Instance((2, 0), "3g.20gb", 19968, 19)),
    ),
    "t4": Machine(
        "Tesla T4",
        "515.105.01",
        11070,
        f"{_TELEGRAF}/tesla-t4.xml",
        7.5,
        (15360, 388, 0),
        _readings(
            _VOLTA,
            _ECC,
            power=26.78,
            power_limit=70,
            power_default_limit=70,
            persistence=0,
            throttle_reasons=0,
            temperature=40,
            temperature_shutdown=96,
            temperature_slowdown=93,
            sm_clock=585,
            sm_clock_max=1590,
            memory_clock=5000,
            memory_clock_max=5001,
            pcie_generation=3,
            pcie_generation_max=3,
            pcie_width=8,
        ),
    ),
    "a10g": Machine(
        "NVIDIA A10G",
        "515.105.01",
        11070,
        f"{_TELEGRAF}/a10g.xml",
        8.6,
        (23028, 435, 22),
        _readings(
            AMPERE,
            _ECC,
            _REMAPPER,
            _ASLEEP,
            power=25.58,
            power_limit=300,
            power_default_limit=300,
            fan=0,
            persistence=0,  # it has no fan, and reports 0%
            temperature=17,
            temperature_shutdown=98,
            temperature_slowdown=95,
            sm_clock=210,
            sm_clock_max=1710,
            memory_clock_max=6251,
            pcie_generation_max=4,
            pcie_width=8,
        ),
    ),
    "a10": Machine(
        "NVIDIA A10",
        "535.54.03",
        12020,
        "nvidia_gpu_exporter's issue 115 and published nvidia-smi tables; thresholds and clocks as of the A10G",
        8.6,
        (23028, 435, 7),
        _readings(
            AMPERE,
            _ECC,
            _REMAPPER,
            _ASLEEP,
            power=15,
            power_limit=150,
            power_default_limit=150,
            fan=0,  # it has no fan either, and reports 0 %
            temperature=33,
            temperature_shutdown=98,
            temperature_slowdown=95,
            sm_clock=210,
            sm_clock_max=1695,
            memory_clock_max=6251,
            pcie_generation_max=4,
        ),
    ),
    "rtx-3060-laptop": Machine(
        "NVIDIA GeForce RTX 3060 Laptop GPU",
        "515.65.01",
        11070,
        f"{_NETDATA}/rtx-3060.xml",
        8.6,
        (6144, 197, 5),
        _readings(
            AMPERE,
            _ASLEEP,
            power=8.7,
            power_limit=None,
            power_default_limit=None,
            persistence=0,
            temperature=45,
            temperature_shutdown=105,
            temperature_slowdown=102,
            sm_clock=210,
            sm_clock_max=2100,
            memory_clock_max=6001,
            pcie_generation_max=4,
            pcie_width=8,
        ),
    ),
    "quadro-p2000": Machine(
        "Quadro P2000",
        "525.125.06",
        12000,
        f"{_TELEGRAF}/quadro-p2000-v12.xml",
        6.1,
        (5120, 66, 1),
        _readings(
            _PASCAL,
            _ASLEEP,
            power=4.61,
            power_limit=75,
            power_default_limit=75,
            fan=46,
            temperature=34,
            temperature_shutdown=104,
            temperature_slowdown=101,
            sm_clock=139,
            sm_clock_max=1721,
            memory_clock_max=3504,
            pcie_generation_max=3,
            pcie_width=8,
        ),
    ),
    "rtx-3090": Machine(
        "NVIDIA GeForce RTX 3090",
        "525.147.05",
        12000,
        f"{_TELEGRAF}/rtx-3090-v12.xml",
        8.6,
        (24576, 316, 1),
        _readings(
            AMPERE,
            _ASLEEP,
            power=27.23,
            power_limit=200,
            power_default_limit=350,
            fan=0,  # its owner lowered the limit
            temperature=37,
            temperature_shutdown=98,
            temperature_slowdown=95,
            sm_clock=0,
            sm_clock_max=2100,
            memory_clock_max=9751,
            pcie_generation_max=4,  # asleep: a real 0 MHz
        ),
    ),
    "a100-80gb-mig": Machine(
        "NVIDIA A100-SXM4-80GB",
        "535.54.03",
        12020,
        f"{_TELEGRAF}/a100-sxm4-v12.xml",
        8.0,
        (81920, 869, 50),
        _readings(
            AMPERE,
            _ECC,
            NO_UTILIZATION,
            power=67.03,
            power_limit=500,
            power_default_limit=500,
            persistence=0,
            throttle_reasons=0,
            temperature=27,
            temperature_shutdown=92,
            temperature_slowdown=89,
            memory_temperature=44,
            sm_clock=1275,
            sm_clock_max=1410,
            memory_clock=1593,
            memory_clock_max=1593,
            pcie_generation=4,
            pcie_generation_max=4,
            nvlink_links=12,
            nvlink_rx=0,
            nvlink_tx=0,
        ),
        tuple(Instance((number, 0), "2g.20gb", 19968, 12) for number in (3, 4, 5)),
    ),
    "rtx-4090": Machine(
        "NVIDIA GeForce RTX 4090",
        "535.86.05",
        12020,
        f"{_NETDATA}/rtx-4090-driver-535.xml",
        8.9,
        (24564, 346, 2),
        _readings(
            _ADA,
            _REMAPPER,
            _ASLEEP,
            power=26.84,
            power_limit=450,
            power_default_limit=450,
            fan=0,
            temperature=40,
            sm_clock=210,
            sm_clock_max=3120,
            memory_clock_max=10501,
            pcie_generation_max=3,
        ),
    ),
    "rtx-3060": Machine(
        "NVIDIA GeForce RTX 3060",
        "570.124.04",
        12080,
        f"{_TELEGRAF}/rtx-3060-v12.xml",
        8.6,
        (12288, 368, 116),
        _readings(
            AMPERE,
            _ASLEEP,
            power=11.6,
            power_instant=11.63,
            power_limit=170,
            power_default_limit=170,
            fan=0,
            temperature=42,
            temperature_shutdown=98,
            temperature_slowdown=95,
            sm_clock=210,
            sm_clock_max=2145,
            memory_clock_max=7501,
            pcie_generation_max=4,
        ),
    ),
    "gb10": Machine(
        "NVIDIA GB10",
        "580.173.02",
        13000,
        "nvitop's pull request 208 and nvtop's issue 426: DGX Spark",
        12.1,
        None,
        _readings(
            _PLAIN,
            NO_THRESHOLDS,
            power=11.17,
            power_limit=None,
            power_default_limit=None,
            temperature=35,
            performance_state=8,
            pcie_generation=1,
            pcie_generation_max=1,
            pcie_width=1,
            pcie_width_max=1,
        ),
    ),
    "gb200": Machine(
        "NVIDIA GB200",
        "570.172.08",
        12080,
        "an issue of vLLM's on GB200 NVL72, and NVIDIA's guides for the tray: 18 links, cores 0-71, GPU memory as node 4",
        10.0,
        (189471, 0, 0),
        _readings(
            NO_THRESHOLDS,
            power=174,
            power_instant=174,
            power_limit=1200,
            power_default_limit=1200,
            temperature=27,
        ),
    ),
    "h100": Machine(
        "NVIDIA H100 80GB HBM3",
        "590.48.01",
        13010,
        f"{_EXPORTER}/linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt",
        9.0,
        (81559, 479, 0),
        _readings(
            _HOPPER_THRESHOLDS,
            NO_LINKS,
            power=69.85,
            power_instant=69.62,
            temperature=41,
            memory_temperature=48,
        ),
    ),
    "h100-mig": Machine(
        "NVIDIA H100 80GB HBM3",
        "590.48.01",
        13010,
        f"{_EXPORTER}/linux-x86_64__nvidia-h100-mig__590.48.01.txt",
        9.0,
        (81559, 479, 59),
        _readings(
            NO_UTILIZATION,
            NO_REMAPPER,
            _HOPPER_THRESHOLDS,
            NO_LINKS,
            power=71.15,
            power_instant=70.72,
            temperature=42,
            memory_temperature=48,
        ),
        (Instance((2, 0), "3g.40gb", 40448, 26),),
    ),
    "h200": Machine(
        "NVIDIA H200",
        "590.48.01",
        13010,
        f"{_EXPORTER}/linux-x86_64__nvidia-h200__590.48.01.txt",
        9.0,
        (143771, 614, 0),
        _readings(
            _HOPPER_THRESHOLDS,
            power=77.71,
            power_instant=78.21,
            temperature=28,
            memory_temperature=32,
            memory_clock=3201,
            memory_clock_max=3201,
        ),
    ),
    "rtx-a5000": Machine(
        "NVIDIA RTX A5000",
        "590.44.01",
        13010,
        f"{_TELEGRAF}/dual_a5000-v13.xml",
        8.6,
        (24564, 450, 0),
        _readings(
            AMPERE,
            _REMAPPER,
            _ASLEEP,
            power=6.41,
            power_instant=6.52,
            power_limit=230,
            power_default_limit=230,
            fan=30,
            temperature=13,
            temperature_shutdown=98,
            temperature_slowdown=95,
            throttle_power=0.002,
            sm_clock=210,
            sm_clock_max=2100,
            memory_clock_max=8001,
            pcie_generation_max=4,
        ),
    ),
    "rtx-pro-6000-max-q": Machine(
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "590.44.01",
        13010,
        f"{_TELEGRAF}/pro-6000-maxq-blackwell-v13.xml",
        12.0,
        (97887, 637, 0),
        _readings(
            _ADA,
            _REMAPPER,
            _ASLEEP,
            power=3.97,
            power_instant=3.99,
            power_limit=300,
            power_default_limit=300,
            fan=30,
            temperature=24,
            sm_clock=180,
            sm_clock_max=3090,
            memory_clock_max=14001,
            pcie_generation_max=4,
            throttle_reasons=0,
        ),
    ),
    "rtx-pro-6000": Machine(
        "NVIDIA RTX PRO 6000 Blackwell",
        "580.95.05",  # the capture says 580
        13000,
        f"{_NETDATA}/rtx-pro-6000-driver-580.xml",
        12.0,
        (97887, 637, 0),  # not in the capture: as on the Max-Q
        _readings(
            _ADA,
            _ASLEEP,
            power=None,
            power_instant=66.84,
            power_limit=None,
            power_default_limit=None,
            fan=40,
            temperature=37,
        ),
    ),
    "rtx-2080-super": Machine(
        "NVIDIA GeForce RTX 2080 SUPER",
        "595.71.05",
        13020,
        f"{_EXPORTER}/linux-x86_64__nvidia-geforce-rtx-2080-super__595.71.05.txt",
        7.5,
        (8192, 408, 214),
        _readings(
            _VOLTA,
            power=39.32,
            power_instant=39.32,
            power_limit=250,
            power_default_limit=250,
            fan=38,
            persistence=0,
            temperature=40,
            temperature_shutdown=100,
            temperature_slowdown=97,
            memory_utilization=9,
            sm_clock=765,
            sm_clock_max=2145,
            memory_clock=810,
            memory_clock_max=7751,
            performance_state=8,
            pcie_generation=1,
            pcie_generation_max=3,
            throttle_reasons=4,  # at its power cap although it is idle
        ),
    ),
    "rtx-4080-super": Machine(
        "NVIDIA GeForce RTX 4080 SUPER",
        "595.71.05",
        13020,
        f"{_EXPORTER}/linux-x86_64__nvidia-geforce-rtx-4080-super__595.71.05.txt",
        8.9,
        (16376, 434, 596),
        _readings(
            _PLAIN,
            _ASLEEP,
            power=26.2,
            power_instant=28.77,
            power_limit=320,
            power_default_limit=320,
            fan=0,
            persistence=0,
            temperature=43,
            temperature_shutdown=101,
            temperature_slowdown=96,
            memory_utilization=23,
            sm_clock=210,
            sm_clock_max=3165,
            memory_clock_max=11501,
            pcie_generation_max=4,
        ),
    ),
    "l40s": Machine(
        "NVIDIA L40S",
        "595.80",
        13020,
        f"{_EXPORTER}/linux-x86_64__nvidia-l40s__595.80.txt",
        8.9,
        (46068, 609, 0),
        _readings(
            _ADA,
            _ECC,
            _REMAPPER,
            # 100% busy, and no process: with persistence mode off, the GPU has only just been woken to answer.
            utilization=100,
            memory_utilization=9,
            power=144.97,
            power_instant=127.67,
            persistence=0,
            power_limit=350,
            power_default_limit=350,
            temperature=63,
            throttle_reasons=0,
            sm_clock=2520,
            sm_clock_max=2520,
            memory_clock=9001,
            memory_clock_max=9001,
            pcie_generation=4,
            pcie_generation_max=4,
        ),
    ),
    "rtx-4000-sff-ada": Machine(
        "NVIDIA RTX 4000 SFF Ada Generation",
        "595.84",
        13020,
        f"{_TELEGRAF}/rtx-4000-sff-ada-v13.xml",
        8.9,
        (20475, 460, 0),
        _readings(
            _ADA,
            _REMAPPER,
            _ASLEEP,
            power=8.81,
            power_instant=8.44,
            power_limit=70,
            power_default_limit=70,
            fan=30,
            temperature=38,
            sm_clock=210,
            sm_clock_max=3105,
            memory_clock_max=7001,
            memory_utilization=37,
            pcie_generation_max=4,
        ),
    ),
}
"""Idle and healthy."""
