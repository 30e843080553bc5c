"""A scripted nvidia-smi, for cards that this machine does not have and for the errors of broken cards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Card:
    """One card as nvidia-smi prints it; sizes in MiB."""

    name: str
    capability: str
    memory: int
    used: int = 3
    compute_mode: str = "Default"
    processes: tuple[tuple[int, str, int], ...] = ()


TITAN_RTX = Card("NVIDIA TITAN RTX", "7.5", 24576)
A100 = Card("NVIDIA A100-SXM4-80GB", "8.0", 81920)
V100 = Card("Tesla V100-SXM2-16GB", "7.0", 16384)
T4 = Card("Tesla T4", "7.5", 15360)

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running."
)
LOST_CARD = (
    "Unable to determine the device handle for GPU0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU"
)
XID_79 = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

PROGRAM = Path(__file__).with_name("nvidia_smi.py")


def write_nvidia_smi(
    folder: Path,
    cards: Sequence[Card] = (TITAN_RTX,),
    *,
    fails: str = "",
    hangs: bool = False,
    driver: str = "570.86.15",
    cuda: str = "12.8",
) -> Path:
    """Write an executable `nvidia-smi` into `folder`, for the front of PATH.

    `fails` is an error that it prints instead of an answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_facts(index, card) for index, card in enumerate(cards)]
    script = {"cards": rows, "fails": fails, "hangs": hangs, "driver": driver, "cuda": cuda}
    (folder / "cards.json").write_text(json.dumps(script))
    path = folder / "nvidia-smi"
    shutil.copyfile(PROGRAM, path)
    path.chmod(0o755)
    return path


def _facts(index: int, card: Card) -> dict[str, object]:
    """Return the facts about a card, by the field names of nvidia-smi's queries."""
    processes = [
        {"pid": pid, "process_name": name, "name": name, "used_memory": used, "used_gpu_memory": used}
        for pid, name, used in card.processes
    ]
    return {
        "index": index,
        "uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
        "gpu_uuid": f"GPU-00000000-0000-4000-8000-{index:012d}",
        "name": card.name,
        "gpu_name": card.name,
        "compute_cap": card.capability,
        "memory.total": card.memory,
        "memory.used": card.used,
        "memory.free": card.memory - card.used,
        "compute_mode": card.compute_mode,
        "pci.bus_id": f"00000000:{index + 1:02X}:00.0",
        "utilization.gpu": 0,
        "temperature.gpu": 35,
        "persistence_mode": "Enabled",
        "processes": processes,
    }
