"""`python -m benchmarks`: run all comparisons. Each comparison is also a program of its own."""

from __future__ import annotations

import subprocess
import sys

MODULES = ("finished", "sync", "tail", "fixers", "proof", "memory", "training")


def main() -> int:
    """Run all comparisons and return their worst exit code."""
    worst = 0
    for name in MODULES:
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        worst = max(worst, subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
