"""A requirement keeps its line in the copy of its file, because pip names the line in its errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.payload.fix.requirements import list_requirements, sort_requirements

PIN = "numpy==1.17.4"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"flash-attn\n{PIN}\n", 2),
        (f"left\n# note\n\nflash-attn\n{PIN}\n", 5),
        (f"left\nsix \\\n  >=1 \\\n  <2\n{PIN}\n", 5),
        (f"{PIN}\nleft\n", 1),
    ],
)
def test_a_requirement_has_the_same_line_in_the_copy_without_other_requirements(
    tmp_path: Path, text: str, line: int
) -> None:
    tree, copies = tmp_path / "tree", tmp_path / "copies"
    tree.mkdir()
    copies.mkdir()
    (tree / "requirements.txt").write_text(text)
    found = sort_requirements(str(tree), ("requirements.txt",), (), ("left",), str(copies))
    lines = Path(found.pip_arguments[1]).read_text().splitlines()
    assert lines[line - 1] == PIN and not {"left", "flash-attn"}.intersection(lines)
    assert Path(found.pip_arguments[1]).parent == copies


def test_a_continued_requirement_is_one_requirement(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("six \\\n  >=1\nleft\n")
    assert list_requirements(str(tmp_path), ("requirements.txt",)) == ["six    >=1", "left"]
