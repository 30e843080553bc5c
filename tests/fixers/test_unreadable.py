"""BI-59: a source file that cannot be parsed is not changed, and reported with exit code 31, file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import LARGEST_SOURCE_BYTES, DiskTree
from fixers.frame.site import Site
from fixers.plans.on_disk import apply_to_disk
from remote.protocol.findings import Severity
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

FLIP = b"import torch\ndtype = torch.bfloat16\n"
UNREADABLE = [
    ("syntax.py", FLIP + b"def f(:\n", 3),
    ("unclosed.py", FLIP + b"x = (1,\n", 3),
    ("tabs.py", FLIP + b"if dtype:\n        a = 1\n\tb = 2\n", 5),
    ("latin.py", b"import torch\n# caf\xe9\ndtype = torch.bfloat16\n", 2),
    ("cookie.py", b"# coding: no-such-code\n" + FLIP, 1),
    ("null.py", FLIP + b"x = 1\0\n", 1),
    ("big.py", FLIP + b"#" * LARGEST_SOURCE_BYTES, 1),
    ("huge.yaml", b"bf16: true\n" + b"# " + b"x" * LARGEST_SOURCE_BYTES, 1),
    ("broken.ipynb", b'{"cells": [{"cell_type": "code", "source": ["x = torch.bfloat16"', 1),
    ("cell.ipynb", b'{"cells": [{"cell_type": "code", "source": ["dtype torch.bfloat16 0x"]}]}', 1),
]


@pytest.mark.parametrize(("name", "data", "line"), UNREADABLE, ids=[name for name, _, _ in UNREADABLE])
def test_BI_59_what_cannot_be_read_is_reported_with_its_line_and_left(
    tmp_path: Path, name: str, data: bytes, line: int
) -> None:
    (tmp_path / name).write_bytes(data)
    (tmp_path / "good.py").write_bytes(FLIP)

    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    assert apply_to_disk(tmp_path, plan) == ("good.py",)

    assert (tmp_path / name).read_bytes() == data
    assert b"torch.float16" in (tmp_path / "good.py").read_bytes(), "one bad file keeps no other from its fix"
    [found] = [finding for finding in plan.findings if finding.where.startswith(name)]
    if name.endswith(".py"):
        assert (found.check, found.severity, found.exit_code) == ("unparsable-source", Severity.ERROR, 31)
    else:
        assert (found.check, found.severity) == ("unparsable-source", Severity.WARNING)
    assert found.where == f"{name}:{line}"
    assert "left unchanged" in found.message
    assert found.hint


def test_BI_59_a_config_that_may_be_a_template_is_a_warning_with_its_line(tmp_path: Path) -> None:
    data = b"bf16: true\nlist: [1, 2\nnext: 3\n"
    (tmp_path / "broken.yaml").write_bytes(data)
    plan = plan_offers(Site(DiskTree(tmp_path), gpu=TITAN_RTX))
    assert apply_to_disk(tmp_path, plan) == ()
    assert (tmp_path / "broken.yaml").read_bytes() == data
    [finding] = plan.findings
    assert (finding.severity, finding.where) == (Severity.WARNING, "broken.yaml:3")
    assert "left unchanged" in finding.message
