"""A name of the project that a shell or an ignore file would read otherwise is not part of a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.setup.data_collator import _absent
from fixers.setup.project_packages import NoPackages, read_packages
from pipeline.judgements.left_out import LeftOut, judge_left_out
from pipeline.judgements.path_uses import PathUse

SPECIAL = ["m(touch PWNED)", "a`b`", "a b", "m[0]", "x*", "a\nb", "a\x1bb", "back\\slash", "!m", "#m"]


@pytest.mark.parametrize("folder", SPECIAL)
def test_SE_the_hint_for_an_excluded_path_describes_a_line_that_it_cannot_print(folder: str) -> None:
    project = LeftOut(lambda path: False, lambda path: True, lambda path: path, lambda path, lines: True)
    [finding] = judge_left_out([PathUse(f"{folder}/toy", "train.py", 1)], project, ()).findings
    assert finding.hint.startswith("write a line that begins with !/ and matches this path into .pipelineignore; or")
    assert folder not in finding.hint


@pytest.mark.parametrize("folder", SPECIAL)
def test_SE_the_nearest_file_is_named_only_if_its_name_is_plain(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "requirements.txt").touch()
    with pytest.raises(NoPackages) as caught:
        read_packages(DiskTree(tmp_path), {"requirements": f"{folder}/requirement.txt"})
    assert caught.value.hint == "list only project files that are sent to the host"
    assert _absent(f"{folder}/x.py", [f"{folder}/y.py"]).hint == "correct fixers.data-collator.path"


def test_plain_names_are_named(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").touch()
    with pytest.raises(NoPackages) as caught:
        read_packages(DiskTree(tmp_path), {"requirements": "requirement.txt"})
    assert caught.value.hint == "requirements: requirements.txt"
