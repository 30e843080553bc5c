"""`python -m pipeline.pages docs`: regenerate the generated pages of docs/."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline.pages.write import write_all


def main(words: list[str]) -> int:
    """Write all pages into the folder given as the only argument."""
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m pipeline.pages docs\n")
        return 2
    write_all(Path(words[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
