"""Which files a proof uses on a host that must not be changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.actions.preview import preview
from pipeline.actions.proof import scratch_of
from pipeline.runs.view import View
from pipeline.stages.fix import Fix
from pipeline.stages.stage import Context
from remote.protocol.machine import Gpu
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import survey_of, view_of
from tests.remote.sync.sync_bench import Bench

TURING = Gpu(0, "", "TITAN RTX", (7, 5), 24 << 30, assumed=True)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "speech", tmp_path / "workdir")
    yield bench
    bench.close()


def context_of(bench: Bench, view: View) -> Context:
    """Return the same project on the laptop and on the host, for a card without bfloat16."""
    survey = replace(survey_of(bench.survey()), gpus=(TURING,))
    return Context(bench.host, replace(view, scan=bench.scan(), survey=survey), NoListener())


@pytest.mark.parametrize("fixed_before", [False, True], ids=["sent", "sent and fixed"])
def test_the_proof_uses_the_fixed_files(bench: Bench, fixed_before: bool) -> None:
    view = view_of(bench.root, state=None)
    bench.write({"train.py": "import torch\ndtype = torch.bfloat16\n"})
    bench.sync()
    if fixed_before:
        Fix().run(context_of(bench, view))
    context = context_of(bench, view)
    seen = preview(context)
    with scratch_of(context, seen.fixes) as source:
        assert (Path(source) / "train.py").read_text() == "import torch\ndtype = torch.float16\n"
    assert not Path(source).exists()
    assert bool(seen.diff) is not fixed_before
