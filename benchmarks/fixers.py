"""Measure the planning of fixes over 2,000 Python files, against ast-grep and LibCST in the same run.

python benchmarks/fixers.py
The files are the 2,000 largest modules of the installed transformers, copied into an empty folder. ast-grep scans the
files with a rule for the forms of bfloat16 that halfstep's fixer finds, without resolving aliases. LibCST resolves
qualified names. LibCST runs on a sample of the files that contain the word "bfloat16"; its time for all of these files
is extrapolated by their size in bytes. Each tool runs in its own process, and its start is included. The best of
several alternating rounds is used. Wall time and CPU time are printed.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import transformers

FILES = 2000
ROUNDS = 5
SAMPLE = 8
SEED = 7
WORD = b"bfloat16"
COLD, WARM, LIBCST = 1.5, 0.5, 0.05
REPOSITORY = Path(__file__).resolve().parent.parent

PLAN = """
import sys
from pathlib import Path
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from remote.protocol.machine import Gpu
card = Gpu(0, "GPU-1", "NVIDIA TITAN RTX", (7, 5), 24 * 2**30, assumed=True)
plan = plan_fixes(Site(DiskTree(Path(sys.argv[1])), gpu=card), only=sys.argv[2:] or None)
print(len(plan.changes))
"""

RULE = """
id: bf16-to-fp16
language: python
rule:
  any:
    - pattern: torch.bfloat16
    - pattern: $X.bfloat16()
    - kind: keyword_argument
      regex: ^bf16(_full_eval)?\\s*=\\s*True$
    - kind: keyword_argument
      regex: ^(torch_)?dtype\\s*=\\s*["'](bfloat16|bf16)["']$
    - kind: keyword_argument
      regex: ^mixed_precision\\s*=\\s*["']bf16["']$
fix: x
"""

QUALIFIED = """
import sys
import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedNameProvider

class Find(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (QualifiedNameProvider,)
    found = 0
    def visit_Attribute(self, node):
        names = self.get_metadata(QualifiedNameProvider, node, ())
        self.found += any(name.name == "torch.bfloat16" for name in names)

find = Find()
for path in sys.argv[1:]:
    MetadataWrapper(cst.parse_module(open(path, "rb").read()), unsafe_skip_copy=True).visit(find)
print(find.found)
"""


@dataclass(frozen=True)
class Timed:
    """The times of one process from start to end."""

    wall_s: float
    cpu_s: float
    summary: str


def timed(argv: list[str]) -> Timed:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(argv, capture_output=True, check=True, cwd=REPOSITORY, env={**os.environ, "PYTHONPATH": "."})
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(wall, cpu, done.stdout.decode())


def best(runs: list[Timed]) -> Timed:
    return min(runs, key=lambda run: run.wall_s)


def copy_corpus(root: Path) -> list[Path]:
    """Copy the 2,000 largest modules into a project and return the copies."""
    package = Path(transformers.__file__).parent
    modules = sorted(package.rglob("*.py"), key=lambda file: (-file.stat().st_size, str(file)))[:FILES]
    copies = []
    for module in modules:
        copy = root / module.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(module, copy)
        copies.append(copy)
    return copies


def measure(root: Path, copies: list[Path]) -> dict[str, Timed]:
    rule = root.parent / "rule.yml"
    rule.write_text(RULE)
    memory = root / ".halfstep"
    plan = [sys.executable, "-c", PLAN, str(root)]
    ast_grep = [
        str(Path(sys.executable).with_name("ast-grep")),
        "scan",
        "--rule",
        str(rule),
        "--json=compact",
        str(root),
    ]
    runs: dict[str, list[Timed]] = {}
    for _ in range(ROUNDS):
        runs.setdefault("ast-grep", []).append(timed(ast_grep))
        shutil.rmtree(memory, ignore_errors=True)
        runs.setdefault("bf16-to-fp16, cold", []).append(timed([*plan, "bf16-to-fp16"]))
        runs.setdefault("bf16-to-fp16, nothing changed", []).append(timed([*plan, "bf16-to-fp16"]))
        shutil.rmtree(memory, ignore_errors=True)
        runs.setdefault("every fixer, cold", []).append(timed(plan))
        runs.setdefault("every fixer, nothing changed", []).append(timed(plan))
    measured = {name: best(each) for name, each in runs.items()}
    measured["LibCST, extrapolated"] = libcst_time(copies)
    return measured


def libcst_time(copies: list[Path]) -> Timed:
    """Return the time of a sample, scaled to all files that contain "bfloat16"."""
    holding = [copy for copy in copies if WORD in copy.read_bytes()]
    sample = random.Random(SEED).sample(holding, SAMPLE)
    run = timed([sys.executable, "-c", QUALIFIED, *map(str, sample)])
    scale = sum(file.stat().st_size for file in holding) / sum(file.stat().st_size for file in sample)
    return Timed(run.wall_s * scale, run.cpu_s * scale, f"{SAMPLE} of {len(holding)} files measured, times {scale:.1f}")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "corpus"
        copies = copy_corpus(root)
        size = sum(copy.stat().st_size for copy in copies)
        measured = measure(root, copies)
    print(f"{len(copies)} files, {size / 1e6:.1f} MB, transformers {transformers.__version__}, {os.cpu_count()} cores")
    for name, run in measured.items():
        print(f"{name:32} {run.wall_s:7.2f} s wall {run.cpu_s:7.2f} s CPU")
    print(measured["LibCST, extrapolated"].summary)
    reference, qualified = measured["ast-grep"].wall_s, measured["LibCST, extrapolated"].wall_s
    goals = {
        f"time without a cache, relative to ast-grep (at most {COLD})": (
            measured["bf16-to-fp16, cold"].wall_s / reference,
            COLD,
        ),
        f"time with an up-to-date cache, relative to ast-grep (at most {WARM})": (
            measured["bf16-to-fp16, nothing changed"].wall_s / reference,
            WARM,
        ),
        f"time without a cache, relative to LibCST (at most {LIBCST})": (
            measured["bf16-to-fp16, cold"].wall_s / qualified,
            LIBCST,
        ),
    }
    for goal, (ratio, _) in goals.items():
        print(f"{goal:48} {ratio:.3f}")
    print(json.dumps({name: round(run.wall_s, 3) for name, run in measured.items()}))
    return 0 if all(ratio <= limit for ratio, limit in goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
