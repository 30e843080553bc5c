"""`python -m benchmarks`: run every comparison; each can also be run alone."""

from __future__ import annotations

import subprocess
import sys

MODULES = ("finished", "sync", "tail", "fixers", "proof", "memory", "training")


def main() -> int:
    """Return the worst exit code of all."""
    worst = 0
    for name in MODULES:
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        worst = max(worst, subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
