#!/usr/bin/env python3
"""A fake nvidia-smi for --query-gpu, --query-compute-apps, -L and no arguments; cards.json holds its answers."""

import json
import os
import sys
import time


def main() -> int:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cards.json")) as file:
        script = json.load(file)
    if script["hangs"]:
        time.sleep(3600)
    if script["fails"]:
        print(script["fails"])
        return 9
    words = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
    shape = words.get("format", "")
    chosen = [card for card in script["cards"] if matches(card, words.get("id") or after("-i"))]
    if "query-gpu" in words:
        fields, rows = words["query-gpu"], chosen
    elif "query-compute-apps" in words:
        fields = words["query-compute-apps"]
        rows = [{**process, "gpu_uuid": card["uuid"]} for card in chosen for process in card["processes"]]
    else:
        return overview(script, chosen)
    names = [field.strip() for field in fields.split(",")]
    if "noheader" not in shape:
        print(", ".join(names))
    for row in rows:
        print(", ".join(cell(row, name, script["driver"], "nounits" in shape) for name in names))
    return 0


def after(option: str) -> str:
    return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else ""


def matches(card: dict, wanted: str) -> bool:
    return not wanted or str(card["index"]) in wanted.split(",") or card["uuid"] in wanted.split(",")


def cell(row: dict, name: str, driver: str, bare: bool) -> str:
    if name == "driver_version":
        return driver
    value = row.get(name, "[N/A]")
    return f"{value} MiB" if "memory" in name and not bare else str(value)


def overview(script: dict, cards: list) -> int:
    if "-L" in sys.argv or "--list-gpus" in sys.argv:
        for card in cards:
            print(f"GPU {card['index']}: {card['name']} (UUID: {card['uuid']})")
    else:
        version = script["driver"]
        print(f"| NVIDIA-SMI {version}    Driver Version: {version}    CUDA Version: {script['cuda']} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
