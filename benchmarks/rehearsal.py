"""`python -m benchmarks.rehearsal [FOLDER]`: `pipeline run` with a Phi-4-multimodal of full size, on the CPU.

Writes a checkpoint of the model's full shape with random float16 weights (9.5 GB) to FOLDER, and trains a LoRA adapter
of rank 64 for two steps on samples of eleven tokens. Then checks the number of trained parameters, the memory while the
weights are loaded, the size of the adapter, and that plain peft loads it. Exits with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import wave
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import PeftModel
from safetensors import safe_open
from safetensors.torch import save_file

from remote.payload.training.families.phi4_multimodal import TOKENS
from remote.payload.training.families.tiny_checkpoint import token_ids, train_tokenizer

LAYERS, RANK = 32, 64
TRAINED_IN_A_LAYER = 45_056 * RANK
LOADING_BYTES = 14 * 10**9
SHARD_BYTES = 2 * 10**9
FREE_DISK_BYTES, FREE_MEMORY_BYTES = 16 * 10**9, 15 * 10**9
PROMPT, ANSWER = "Say", "yes"
CONFIG = """\
project: .
precision: {precision}
model: {{id: {model}}}
lora: {{r: 64, alpha: 128, dropout: 0.05}}
data: {{path: speech, tasks: [messages], samples: 4}}
train: {{epochs: 1, batch_size: 1, gradient_accumulation: 1, max_steps: 2, save_steps: 2, evaluate: false}}
"""


@dataclass
class Peak:
    """The highest memory of the training process: in total, and without the pages of mapped files.

    The kernel drops these pages when other processes need the memory.
    """

    resident: int = 0
    anonymous: int = 0

    def look(self, pids: Iterator[int]) -> None:
        """Read the memory of the processes and keep the highest values."""
        for pid in pids:
            sizes = status_of(pid)
            self.resident = max(self.resident, sizes.get("VmRSS", 0))
            self.anonymous = max(self.anonymous, sizes.get("RssAnon", 0))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "folder", nargs="?", help="where the checkpoint and the run are written; the folder is deleted afterwards"
    )
    parser.add_argument("--layers", type=int, default=LAYERS, help="fewer decoder layers, to try the command itself")
    parser.add_argument(
        "--precision", default="bf16", help="fp16-mixed, the mode of Turing cards, is slow on most CPUs"
    )
    words = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rehearsal-", dir=words.folder))
    try:
        if words.layers == LAYERS:
            check_room(folder)
        return rehearse(folder, words.layers, words.precision)
    finally:
        shutil.rmtree(folder)


def rehearse(folder: Path, layers: int, precision: str) -> int:
    """Write the model, train, check, and print the measurements. Return the exit code."""
    began = time.monotonic()
    model, project = folder / "model", folder / "project"
    size = write_checkpoint(model, layers)
    print(f"wrote {size / 1e9:.2f} GB in {time.monotonic() - began:.0f} s", flush=True)
    write_project(project, model, precision)
    began = time.monotonic()
    code, loading, whole = run_pipeline(folder, project)
    if code:
        return code
    seconds = time.monotonic() - began
    adapter = next(project.glob(".halfstep/runs/*/adapter"))
    trained = count_weights(adapter / "adapter_model.safetensors")
    checks = {
        "trained parameters": (f"{trained:,}", trained == TRAINED_IN_A_LAYER * layers),
        "memory while the weights are loaded": (gigabytes(loading.anonymous), loading.anonymous < LOADING_BYTES),
        "with the mapped pages of the checkpoint": (gigabytes(loading.resident), True),
        "memory of the training": (gigabytes(whole.anonymous), True),
        "adapter": (f"{folder_size(adapter) / 1e6:.0f} MB", folder_size(adapter) < 4.1 * trained),
        "plain peft loads it": ("with equal weights", loads_in_plain_peft(model, adapter)),
        "pipeline run": (f"{seconds:.0f} s", True),
    }
    for name, (value, good) in checks.items():
        print(f"| {name} | {value}{'' if good else ' (FAILED)'} |")
    return 0 if all(good for _, good in checks.values()) else 1


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def check_room(folder: Path) -> None:
    """Exit with a message if the disk or the memory is too small."""
    disk = shutil.disk_usage(folder).free
    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = next((int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")), memory)
    for what, free, needed in (("disk", disk, FREE_DISK_BYTES), ("memory", memory, FREE_MEMORY_BYTES)):
        if free < needed:
            sys.exit(f"{what}: {free / 1e9:.0f} GB are free, the rehearsal needs {needed / 1e9:.0f} GB")


def write_checkpoint(folder: Path, layers: int) -> int:
    """Write config, tokenizer, feature extractor and float16 shards; return the bytes of the weights.

    Only one shard is in memory at a time.
    """
    tokenizer = train_tokenizer([PROMPT, ANSWER], TOKENS)
    ids = token_ids(tokenizer, TOKENS)
    config = transformers.Phi4MultimodalConfig(
        num_attention_heads=24,
        num_hidden_layers=layers,
        tie_word_embeddings=True,
        bos_token_id=ids["<|endoftext|>"],
        eos_token_id=[ids["<|endoftext|>"], ids["<|end|>"]],
        pad_token_id=ids["<|endoftext|>"],
        audio_config={"audio_token_id": ids["<|audio|>"]},
        vision_config={"image_token_id": ids["<|image|>"]},
        dtype="float16",
        architectures=["Phi4MultimodalForCausalLM"],
    )
    with torch.device("meta"):
        shapes = {
            name: tensor.shape
            for name, tensor in transformers.Phi4MultimodalForCausalLM(config).state_dict().items()
            if name != "lm_head.weight"
        }
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformers.Phi4MultimodalFeatureExtractor().save_pretrained(folder)
    shards = list(divide(shapes))
    pool, where = random_pool(), {}
    for number, names in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file({name: made_weights(name, shapes[name], pool) for name in names}, folder / file, {"format": "pt"})
        where.update(dict.fromkeys(names, file))
    total = sum(2 * shape.numel() for shape in shapes.values())
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def divide(shapes: dict[str, torch.Size]) -> Iterator[list[str]]:
    """Yield the names of the tensors of each shard."""
    names: list[str] = []
    size = 0
    for name, shape in shapes.items():
        if names and size + 2 * shape.numel() > SHARD_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += 2 * shape.numel()
    yield names


def random_pool() -> torch.Tensor:
    """Return normally distributed numbers from which all weights are copied. Drawing each weight would take minutes."""
    torch.manual_seed(0)
    return (0.02 * torch.randn(2**24 + 2**20)).half()


def made_weights(name: str, shape: torch.Size, pool: torch.Tensor) -> torch.Tensor:
    """Return the weights of one tensor: norms are 1, biases 0, everything else is random."""
    if len(shape) == 1:
        return torch.zeros(shape, dtype=torch.float16) if name.endswith("bias") else torch.ones(shape).half()
    first, count = random.Random(name).randrange(2**20), shape.numel()
    block = pool[first : first + 2**24]
    return block.repeat(-(-count // len(block)))[:count].view(shape).clone()


def write_project(project: Path, model: Path, precision: str) -> None:
    """Write a project with four short clips, one question and one answer."""
    (project / "configs").mkdir(parents=True)
    (project / "speech").mkdir()
    (project / "configs" / "rehearsal.yaml").write_text(CONFIG.format(precision=precision, model=model))
    rows = []
    for number in range(4):
        with wave.open(str(project / "speech" / f"{number}.wav"), "wb") as clip:
            clip.setparams((1, 2, 16_000, 0, "NONE", ""))
            tone = (int(8000 * math.sin(2 * math.pi * (300 + 90 * number) * i / 16_000)) for i in range(4800))
            clip.writeframes(b"".join(value.to_bytes(2, "little", signed=True) for value in tone))
        messages = [{"role": "user", "content": f"<audio>{PROMPT}"}, {"role": "assistant", "content": ANSWER}]
        rows.append(json.dumps({"messages": messages, "audios": [f"{number}.wav"], "split": "train"}))
    (project / "speech" / "metadata.jsonl").write_text("\n".join(rows) + "\n")


def run_pipeline(folder: Path, project: Path) -> tuple[int, Peak, Peak]:
    """Return the exit code of `pipeline run`, the peak until the model is loaded, and the peak until the end."""
    home = folder / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "HF_HUB_OFFLINE": "1"}
    argv = [sys.executable, "-m", "pipeline", "run", "--host", "local", "--config", "rehearsal", "--yes"]
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    loading, whole = Peak(), Peak()
    with subprocess.Popen(argv, cwd=project, env=environment, stdin=subprocess.DEVNULL) as process:
        while process.poll() is None:
            pids = list(trainers(str(home)))
            whole.look(iter(pids))
            if not any(home.rglob("progress.json")):
                loading.look(iter(pids))
            time.sleep(0.2)
    return process.returncode, loading, whole


def trainers(place: str) -> Iterator[int]:
    """Yield the ids of the training processes below that folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"train" in words and any(place.encode() in word for word in words):
                yield int(entry.name)


def status_of(pid: int) -> dict[str, int]:
    """Return the sizes in /proc/PID/status in bytes, or {} if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    parts = [line.split() for line in lines if line.endswith(" kB")]
    return {name.rstrip(":"): int(number) * 1024 for name, number, _ in parts}


def count_weights(path: Path) -> int:
    """Return the number of weights in a safetensors file."""
    with safe_open(path, "pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def loads_in_plain_peft(model: Path, adapter: Path) -> bool:
    """Return True if transformers and peft load the model and the adapter, and the adapter's weights are equal."""
    plain: Any = transformers.Phi4MultimodalForCausalLM.from_pretrained(model, dtype=torch.float16)
    loaded = PeftModel.from_pretrained(plain, str(adapter)).state_dict()
    with safe_open(adapter / "adapter_model.safetensors", "pt") as file:
        names = {name: name.removesuffix(".weight") + ".default.weight" for name in file.keys()}  # noqa: SIM118
        return all(torch.equal(loaded[place], file.get_tensor(name)) for name, place in names.items())


if __name__ == "__main__":
    sys.exit(main())
