"""Laws of every fixer: planning writes nothing and is repeatable, a second fix changes nothing, undo restores."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans import on_disk
from fixers.plans.diff import render_diff
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from remote.errors import BadUsage, Busy, FixRefused
from tests.fixers.all_cases import plan_all
from tests.fixers.casebook import AMPERE, TITAN_RTX
from tests.fixers.offers import plan_offers


def _digests(root: Path) -> dict[str, str]:
    files = (file for file in sorted(root.rglob("*")) if file.is_file() and ".halfstep" not in file.parts)
    return {str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_planning_writes_nothing_and_repeats_itself(new_project: Path) -> None:
    before = _digests(new_project)
    first, second = plan_all(new_project), plan_all(new_project)
    assert first.changes
    assert first == second
    assert _digests(new_project) == before


def test_there_is_one_change_per_file_with_every_fixer_that_acted(project: Path) -> None:
    changes = [change for change in plan_all(project).changes if isinstance(change, FileChange)]
    assert len({change.path for change in changes}) == len(changes)
    assert any(len(change.fixers) > 1 for change in changes)
    assert all(change.before != change.after and change.why for change in changes)


def test_FI_34_after_applying_nothing_is_left_to_do(project: Path) -> None:
    written = apply_to_disk(project, plan_all(project))
    assert written
    assert plan_all(project).changes == ()
    assert apply_to_disk(project, plan_all(project)) == ()


def test_undoing_restores_every_byte_and_mode(project: Path) -> None:
    first = next(iter(plan_all(project).changes))
    (project / first.path).chmod(0o755)
    before = _digests(project)
    written = apply_to_disk(project, plan_all(project))
    assert (project / first.path).stat().st_mode & 0o777 == 0o755
    assert _digests(project) != before
    undone = undo_on_disk(project)
    assert set(undone.restored) == set(written)
    assert undone.findings == ()
    assert _digests(project) == before
    assert (project / first.path).stat().st_mode & 0o777 == 0o755
    assert undo_on_disk(project).restored == ()
    assert not list((project / ".halfstep/undo/originals").iterdir())


class _Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", [1, 2, 3, 4, 7, 12, 25])
def test_FI_33_after_a_kill_between_any_two_writes_the_next_fix_gives_the_same_bytes(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    before = _digests(project)
    plan = plan_all(project)
    wanted = {**before, **{c.path: hashlib.sha256(c.after).hexdigest() for c in plan.changes}}
    renames = 0
    replace = os.replace

    def until_killed(part: str, target: str, **folders: int | None) -> None:
        nonlocal renames
        renames += 1
        if renames == moment:
            raise _Killed
        replace(part, target, **folders)

    monkeypatch.setattr(os, "replace", until_killed)
    with pytest.raises(_Killed):
        apply_to_disk(project, plan)
    monkeypatch.setattr(os, "replace", replace)
    apply_to_disk(project, plan_all(project))
    assert _digests(project) == wanted
    undo_on_disk(project)
    assert _digests(project) == before


def test_undo_reverts_two_fixes_in_a_row(small_project: Path) -> None:
    before = _digests(small_project)
    apply_to_disk(small_project, plan_offers(Site(DiskTree(small_project), gpu=TITAN_RTX), only=["bf16-probe"]))
    between = _digests(small_project)
    apply_to_disk(small_project, plan_all(small_project))
    assert len({str(before), str(between), str(_digests(small_project))}) == 3
    undo_on_disk(small_project)
    assert _digests(small_project) == before


def test_a_file_that_changed_after_planning_is_refused_before_anything_is_written(small_project: Path) -> None:
    plan = plan_all(small_project)
    victim = small_project / plan.changes[-1].path
    victim.write_bytes(victim.read_bytes() + b"\n")
    before = _digests(small_project)
    with pytest.raises(FixRefused) as refused:
        apply_to_disk(small_project, plan)
    assert refused.value.where == plan.changes[-1].path
    assert _digests(small_project) == before


def test_undo_leaves_and_names_a_file_that_was_edited_since(small_project: Path) -> None:
    written = apply_to_disk(small_project, plan_all(small_project))
    edited, removed = small_project / written[0], small_project / written[1]
    edited.write_bytes(edited.read_bytes() + b"# mine\n")
    removed.unlink()
    undone = undo_on_disk(small_project)
    assert edited.read_bytes().endswith(b"# mine\n")
    assert [finding.where for finding in undone.findings] == sorted([written[0], written[1]])
    assert set(undone.restored) == set(written[2:])
    assert "no longer exists" in next(f.message for f in undone.findings if f.where == written[1])


@pytest.mark.parametrize(
    "path", ["../outside.py", "/etc/hostname", "link/inside.py", "a-link.py", "a/../../outside.py"]
)
def test_nothing_outside_the_folder_is_written(tmp_path: Path, path: str) -> None:
    root = tmp_path / "project"
    root.mkdir()
    outside = tmp_path / "outside.py"
    outside.write_bytes(b"x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/inside.py").write_bytes(b"x")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "a-link.py").symlink_to(outside)
    with pytest.raises(FixRefused, match="not a file of this folder"):
        apply_to_disk(root, Plan((), (FileChange(path, b"x", b"y", {}),)))
    assert outside.read_bytes() == (tmp_path / "elsewhere/inside.py").read_bytes() == b"x"


def test_two_fixes_at_once_are_refused(small_project: Path) -> None:
    plan = plan_all(small_project)
    with on_disk._locked(small_project), pytest.raises(Busy):
        apply_to_disk(small_project, plan)


def test_nothing_is_rewritten_for_a_card_that_has_bfloat16_or_is_unknown(project: Path) -> None:
    for card in (AMPERE, None):
        acted = {name for change in plan_all(project, card=card).changes for name in change.fixers}
        assert not acted & {"bf16-to-fp16", "trainable-fp32", "bf16-probe", "attention-to-sdpa", "loss-fp32"}


def test_a_change_to_float16_includes_the_cast_of_trainable_parameters(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nmodel.to(torch.bfloat16)\noptimizer = torch.optim.AdamW(model.parameters())\n"
    )
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX), only=["bf16-to-fp16"])
    assert set(plan.changes[0].fixers) == {"bf16-to-fp16", "trainable-fp32"}
    compile(plan.changes[0].after, "train.py", "exec")


def test_a_fixer_that_is_off_does_nothing(small_project: Path) -> None:
    plan = plan_offers(Site(DiskTree(small_project), gpu=TITAN_RTX, settings={"local-rank": "off"}))
    assert not [change for change in plan.changes if "local-rank" in change.fixers]


def test_pure_float16_leaves_trainable_parameters_in_float16(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("model.half()\noptimizer = torch.optim.AdamW(model.parameters())\n")
    site = Site(DiskTree(tmp_path), gpu=TITAN_RTX, config={"precision": "fp16-pure"})
    assert plan_offers(site).changes == ()
    assert plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX, config={"precision": "auto"})).changes


class _BareTree:
    """A tree that is not a folder and in which one file is missing."""

    def paths(self) -> list[str]:
        return ["there.py", "gone.py"]

    def read(self, path: str) -> bytes:
        if path == "gone.py":
            raise FileNotFoundError(2, "No such file or directory", path)
        return b"import torch\nx = torch.bfloat16\n"


def test_a_file_that_cannot_be_read_is_reported_and_the_others_are_planned(tmp_path: Path) -> None:
    plan = plan_offers(Site(_BareTree(), gpu=TITAN_RTX))
    assert [change.path for change in plan.changes] == ["there.py"]
    assert [(finding.check, finding.where) for finding in plan.findings] == [("unreadable-source", "gone.py")]


def test_an_unknown_fixer_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="no-such"):
        plan_offers(Site(DiskTree(tmp_path)), only=["no-such"])


def test_a_diff_shows_reasons_lines_and_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"# coding: latin-1\r\nimport torch\r\ns = '\xe9'; x = torch.bfloat16")
    text = render_diff(plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX)))
    assert text.splitlines() == [
        "# line 3: no bfloat16 on this card (bf16-to-fp16)",
        "--- a/a.py",
        "+++ b/a.py",
        "@@ -1,3 +1,3 @@",
        " # coding: latin-1\\r",
        " import torch\\r",
        "-s = '\\xe9'; x = torch.bfloat16",
        "\\ No newline at end of file",
        "+s = '\\xe9'; x = torch.float16",
        "\\ No newline at end of file",
    ]
    assert render_diff(Plan()) == ""


def test_BI_59_a_huge_file_is_reported_and_left(tmp_path: Path) -> None:
    with (tmp_path / "big.py").open("wb") as file:
        file.write(b"import torch\nx = torch.bfloat16\n")
        file.truncate(50 * 2**20)
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    assert plan.changes == ()
    assert [(f.check, f.where, f.exit_code) for f in plan.findings] == [("unparsable-source", "big.py:1", 31)]
