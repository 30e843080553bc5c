"""`python -m pipeline.pages FOLDER`: the generated pages of docs/ are what the code says now."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline.pages.write import write_all


def main(words: list[str]) -> int:
    """Writes into the folder that is named."""
    if len(words) != 1 or words[0].startswith("-"):
        sys.stderr.write("usage: python -m pipeline.pages docs\n")
        return 2
    write_all(Path(words[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
