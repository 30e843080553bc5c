"""One fixer alone, on a host on which others have already made changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.plans.diff import render_diff
from fixers.registry import SETUP_NAMES
from pipeline.actions.fix import edits_on_host, fix_on_host
from pipeline.config.load import load_config
from pipeline.runs.fixes import plan_for
from pipeline.runs.start import note_of
from pipeline.runs.view import View
from pipeline.stages.fix import Fix
from pipeline.stages.stage import Context
from remote.project.scan import scan_project
from remote.protocol.blocks import unpack_blocks
from remote.protocol.machine import Gpu
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import encode
from remote.sync.rewrite import sha256
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import survey_of, view_of

CAST = "import torch\n\nmodel = model.to(torch.bfloat16)\n"
TRAINS = "import cast\nimport probe\n"
PROBE = "import torch\n\nnative = torch.cuda.is_bf16_supported()\n"


def on_a_titan(root: Path, **texts: str) -> View:
    """Return a project with faults for two fixers, on a card of capability 7.5."""
    view = view_of(root)
    for name, text in {"train.py": TRAINS, "cast.py": CAST, "probe.py": PROBE, **texts}.items():
        (root / name).write_text(text)
    scan = scan_project(root)
    digest = scan.manifest.source_digest()
    survey = survey_of(TreeSurvey(True, digest, digest, len(scan.manifest.rows)))
    card = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 << 30)
    return replace(view, scan=scan, survey=replace(survey, gpus=(card,)))


def with_rewrites(view: View, changes: tuple[FileChange, ...]) -> View:
    """Return the view with those changes applied to the host's tree."""
    rows = view.scan.manifest.rows
    fixed = {c.path: replace(rows[c.path], installed=sha256(c.after), fixers=dict(c.fixers)) for c in changes}
    return view.with_survey(replace(view.survey, tree=replace(view.survey.tree, fixed=fixed)))


def sent(host: FakeHost) -> dict[str, tuple[str, ...]]:
    """Return the files that the host was requested to rewrite, with their fixers."""
    [(_, data)] = host.sent
    stream = b"".join(unpack_blocks([data], "zlib"))
    length = int.from_bytes(stream[:8], "big")
    return {row[0]: tuple(sorted(row[4])) for row in json.loads(stream[8 : 8 + length])["changes"]}


@pytest.mark.parametrize("path", ["probe.py", "cast.py"], ids=["in another file", "in the same file"])
def test_applying_one_more_fixer_keeps_earlier_rewrites(tmp_path: Path, path: str) -> None:
    view = on_a_titan(tmp_path, **({"cast.py": CAST + PROBE} if path == "cast.py" else {}))
    made = tuple(c for c in plan_for(view, None, ["bf16-to-fp16"]).changes if isinstance(c, FileChange))
    assert [change.path for change in made] == ["cast.py"]
    fixed = with_rewrites(view, made)
    host = FakeHost(operations={"tree.rewrite": lambda args: {"survey": encode(fixed.survey.tree)}})
    plan = fix_on_host(Context(host, fixed, NoListener()), ["bf16-probe"], show_only=False)
    assert path in {change.path for change in plan.changes if isinstance(change, FileChange)}
    fixers_of = sent(host)
    assert "bf16-probe" in fixers_of[path]
    assert fixers_of.get("cast.py", ("bf16-to-fp16",))[-1] == "bf16-to-fp16", "what another fixer made was taken back"


def test_edits_that_were_made_on_the_host_can_be_shown_later(tmp_path: Path) -> None:
    view = on_a_titan(tmp_path)
    assert edits_on_host(view) == Plan()
    made = tuple(c for c in plan_for(view, None, ["bf16-to-fp16"]).changes if isinstance(c, FileChange))
    diff = render_diff(edits_on_host(with_rewrites(view, made)))
    assert "+++ b/cast.py" in diff and "probe.py" not in diff


def test_the_fix_stage_says_how_to_see_its_edits_and_the_run_records_their_files(tmp_path: Path) -> None:
    loaded = load_config("plain", view_of(tmp_path).loaded.root, [f"fixers.{name}=off" for name in SETUP_NAMES])
    given = ("--host", "titan", "--config", "plain", "--set", "grace_s=5")
    view = replace(on_a_titan(tmp_path), loaded=loaded, given=given)
    host = FakeHost(operations={"tree.rewrite": lambda args: {"survey": encode(view.survey.tree)}})
    [line] = Fix().run(Context(host, view, NoListener())).follow_up
    assert line.endswith("pipeline fix --host titan --config plain --set grace_s=5 --diff")
    made = tuple(c for c in plan_for(view, None).changes if isinstance(c, FileChange))
    fixed = with_rewrites(view, made)
    assert note_of(fixed, "r").rewritten == tuple(sorted(change.path for change in made)) != ()
    assert Fix().run(Context(FakeHost(), fixed, NoListener())).follow_up == ()
