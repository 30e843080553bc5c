"""The project that is copied: 2,000 Python files that compress like code, and one incompressible file."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

FILES, TREE_BYTES, BLOB_BYTES = 2000, 20 * 2**20, 200 * 2**20
SAMPLES = (10, 60)


@dataclass(frozen=True)
class Material:
    """The projects: two copies of all files, two samples of the files (`few`, `more`), and one large file.

    The copy `twin` is for the whole program, so that the measurements of the program and of `sync alone` do not share
    caches.
    """

    tree: Path
    twin: Path
    few: Path
    more: Path
    blob: Path


def make_material(folder: Path) -> Material:
    """Create the files, with the same bytes in every run."""
    made = Material(*(folder / part / "speech" for part in ("tree", "twin", "few", "more", "blob")))
    make_tree(made.tree)
    make_tree(made.twin)
    make_sample(made.tree, made.few, SAMPLES[0])
    make_sample(made.tree, made.more, SAMPLES[1])
    made.blob.mkdir(parents=True)
    (made.blob / "weights.bin").write_bytes(random.Random(1).randbytes(BLOB_BYTES))
    return made


def make_tree(root: Path) -> None:
    rng = random.Random(2026)
    words = [f"{a}_{b}" for a in ("load", "batch", "audio", "lora", "step", "mask") for b in range(60)]
    for number in range(FILES):
        path = root / f"pkg{number % 40}" / f"sub{number % 14}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines, size = [], 0
        while size < TREE_BYTES // FILES:
            line = f"    {rng.choice(words)} = {rng.choice(words)}({rng.choice(words)}, {rng.randrange(1000)})\n"
            lines.append(line)
            size += len(line)
        path.write_text("".join(lines))


def make_sample(root: Path, sample: Path, count: int) -> None:
    for path in sorted(root.rglob("*.py"))[:count]:
        copy = sample / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
