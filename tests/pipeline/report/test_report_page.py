"""The report is one self-contained page with all results, and escapes text from outside."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixers.frame.change import FileChange
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.report.live_curves import script
from pipeline.report.model import CureRow, FixRow, JobRow, RunReport, Verdict, fix_of
from pipeline.report.page import render_report
from remote.protocol.events import Scalar
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState
from remote.protocol.proof import DtypeRow, NotChecked, ProofReport

VOID = {"meta", "br", "line", "circle", "path"}


class Reader(HTMLParser):
    """Collects tags, attributes and visible text; fails if a tag is not closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
        elif self.open[-1] == "script":
            self.scripts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def loss(steps: int, value=lambda step: 3.0 / step, tag: str = "train/loss") -> tuple[Scalar, ...]:
    return tuple(Scalar(tag, step, value(step), 1000.0 + step, "tensorboard/e") for step in range(1, steps + 1))


BARE = RunReport(run="tiny-0a1b2c3d", config="tiny", host="local", verdict=Verdict.NOT_STARTED)
FULL = replace(
    BARE,
    verdict=Verdict.TRAINED,
    project="speech",
    card="NVIDIA TITAN RTX",
    precision="fp16-mixed",
    step=60,
    steps=60,
    began_unix=1763600000.0,
    written_unix=1763604000.0,
    version="0.1.0",
    stages=(StageOutcome("sync", StageState.DONE, 1.2, "3 files sent"), StageOutcome("train", StageState.SKIPPED)),
    jobs=(JobRow(1, JobState.FAILED, 0, 33, 100.0, "out of memory"), JobRow(2, JobState.SUCCEEDED, 20, 60, 90.0)),
    scalars=(
        *loss(60),
        *loss(60, lambda step: 65536.0 if step > 2 else 131072.0, "train/loss_scale"),
        Scalar("eval/apa/accuracy/pearson", 60, 0.71, 5000.0, "tensorboard/e"),
        Scalar("eval/apa/accuracy/spearman", 60, 0.69, 5000.0, "tensorboard/e"),
        Scalar("eval/mdd/wer", 60, 0.081, 5000.0, "tensorboard/e"),
    ),
    fixes=(
        FixRow(
            ("bf16-to-fp16",), "src/train.py", ("line 3: float16",), "--- a\n+++ b\n@@ -1 +1 @@\n-bfloat16\n+float16"
        ),
    ),
    proof=ProofReport(
        findings=(Finding("finite-loss", Severity.INFO, "3.2, then 3.1"),),
        unseen=(NotChecked("bandwidth", "one card only"),),
        dtypes=(DtypeRow("trainable", "float32", 8, 1_500_000, 6_000_000),),
    ),
    cures=(CureRow("cuda-out-of-memory", "the longest recordings", "checkpointing on", 1),),
    findings=(Finding("slow-link", Severity.WARNING, "0.1 MB/s", "titan", "pipeline hosts check titan"),),
    environment=(("torch", "2.13.0"),),
    config_text="lora: {r: 64}",
    artifacts=(("adapter", "runs/adapter"),),
    not_checked=(("hub", "offline"),),
)


def test_a_full_report_has_every_section():
    words = Reader(render_report(FULL)).text
    for expected in (
        "tiny-0a1b2c3d",
        "60 of 60 optimizer steps of tiny on local (NVIDIA TITAN RTX) in fp16-mixed",
        "The loss fell from 3 to 0.0542",
        "Loss 0.0542 mean of the last 10 steps; lowest 0.0542",
        "Evaluation at step 60",
        "0.710",
        "word error rate",
        "ok finite-loss 3.2, then 3.1",
        "not checked bandwidth one card only",
        "bf16-to-fp16",
        "+float16",
        "cuda-out-of-memory",
        "steps 0 to 33",
        "pipeline hosts check titan",
        "trainable float32 8 1.5 M 5.72 MiB",
        "lora: {r: 64}",
    ):
        assert expected in words


def test_a_run_that_never_started_has_a_page():
    reader = Reader(render_report(BARE))
    assert "no optimizer step was made" in reader.text
    assert not [tag for tag, _ in reader.tags if tag in ("svg", "table")]


def test_the_same_report_gives_the_same_bytes():
    assert render_report(FULL) == render_report(replace(FULL))


@pytest.mark.parametrize("report", [BARE, FULL], ids=["bare", "full"])
def test_the_page_loads_nothing_and_runs_only_its_own_script(report):
    page = render_report(report)
    reader = Reader(page)
    assert not {tag for tag, _ in reader.tags} & {
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
        "a",
    }
    assert not [
        name for _, attributes in reader.tags for name in attributes if name in ("src", "href", "srcset", "action")
    ]
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert "url(" not in page
    assert "@import" not in page
    scripts = [attributes for tag, attributes in reader.tags if tag == "script"]
    assert [one for one in scripts if one != {"type": "application/json"}] == [{}] * bool(scripts)
    own = [words for words, attributes in zip(reader.scripts, scripts, strict=True) if not attributes]
    digests = [base64.b64encode(hashlib.sha256(words.encode()).digest()).decode() for words in own]
    (policy,) = [attributes["content"] for tag, attributes in reader.tags if "http-equiv" in attributes]
    assert policy.startswith("default-src 'none'; ")
    assert re.findall(r"script-src '([^;]*)'", policy) == [f"sha256-{digest}" for digest in digests]
    assert all("Copyright (c) 2022 Leon Sorokin" in words and words.startswith("/*") for words in own)
    without = page.replace(own[0], "") if own else page
    assert not re.search(r"https?://", without)
    # What the script loads would be refused by the policy; it names no address but that of its library.
    assert all(set(re.findall(r"https?://[^\s)]+", words)) == {"https://github.com/leeoniya/uPlot"} for words in own)


HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'`&\x1b[2J\u202e\udcff]]>--><!--"


def hostile(report: RunReport) -> RunReport:
    """Return the report with all texts replaced."""
    return RunReport(
        run=HOSTILE,
        config=HOSTILE,
        host=HOSTILE,
        verdict=Verdict.FAILED,
        project=HOSTILE,
        card=HOSTILE,
        precision=HOSTILE,
        step=3,
        steps=9,
        reason=HOSTILE,
        version=HOSTILE,
        stages=(StageOutcome(HOSTILE, StageState.FAILED, 1.0, HOSTILE),),
        jobs=(JobRow(1, JobState.LOST, 0, 3, 1.0, HOSTILE),),
        scalars=(
            *loss(3, tag=HOSTILE),
            *loss(3, tag=f"{HOSTILE}/loss"),
            *loss(3, tag=f"{HOSTILE}/grad_norm"),
            Scalar(f"eval/{HOSTILE}/pearson", 1, 0.5, 1.0, HOSTILE),
            Scalar(f"eval/{HOSTILE}/wer", 1, 0.5, 1.0, HOSTILE),
        ),
        fixes=(FixRow((HOSTILE,), HOSTILE, (HOSTILE,), HOSTILE),),
        proof=ProofReport(
            (Finding(HOSTILE, Severity.ERROR, HOSTILE),),
            (NotChecked(HOSTILE, HOSTILE),),
            (DtypeRow(HOSTILE, HOSTILE, 1, 1, 1),),
            device=HOSTILE,
        ),
        cures=(CureRow(HOSTILE, HOSTILE, HOSTILE),),
        findings=(Finding(HOSTILE, Severity.ERROR, HOSTILE, HOSTILE, HOSTILE),),
        environment=((HOSTILE, HOSTILE),),
        config_text=HOSTILE,
        command=HOSTILE,
        commit=HOSTILE,
        uncommitted=(HOSTILE,),
        output=HOSTILE,
        artifacts=((HOSTILE, HOSTILE),),
        not_checked=((HOSTILE, HOSTILE),),
    )


def test_BI_55_markup_in_any_text_is_escaped():
    page = render_report(hostile(FULL))
    reader = Reader(page)
    assert not {tag for tag, _ in reader.tags} & {"img"}
    kinds = [attributes.get("type") for tag, attributes in reader.tags if tag == "script"]
    assert (kinds.count(None), set(kinds)) == (1, {None, "application/json"})
    data = [json.loads(words) for words, kind in zip(reader.scripts, kinds, strict=True) if kind]
    assert len(data) == 3
    assert not any("<" in words or "&" in words for words, kind in zip(reader.scripts, kinds, strict=True) if kind)
    assert "alert(1)" in reader.text
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert "\x1b" not in page
    assert "\u202e" not in page
    page.encode("utf-8")


@given(st.text(max_size=60))
def test_the_page_is_well_formed_for_any_text(word):
    report = replace(
        FULL, run=word, reason=word, config_text=word, output=word, findings=(Finding(word, Severity.INFO, word),)
    )
    Reader(render_report(report).replace(script(), ""))  # parsing the script takes ten times as long as the rest


@pytest.mark.parametrize(
    "values",
    [[math.nan] * 5, [math.inf, 1.0, -math.inf], [0.0] * 30, [1e300, -1e300], [5e-324, 1.0], [7.0], [1.0, 1e9] * 20],
)
def test_any_values_can_be_drawn(values):
    page = render_report(replace(FULL, scalars=loss(len(values), lambda step: values[step - 1])))
    Reader(page)
    coordinates = " ".join(re.findall(r' (?:d|x|y|cx|cy|x1|y1)="([^"]*)"', page))
    assert "nan" not in coordinates
    assert "inf" not in coordinates


def test_steps_that_are_not_numbers_are_marked():
    page = render_report(replace(FULL, scalars=loss(9, lambda step: math.nan if step == 4 else 1.0 / step)))
    assert page.count('class="broken"') == 1
    assert "step 4: not a finite number" in page


def test_a_hundred_thousand_points_make_a_page_of_modest_size():
    page = render_report(replace(FULL, scalars=loss(100_000, lambda step: math.sin(step) + 2)))
    assert len(page) < 250_000


def test_a_failed_run_shows_its_findings_before_its_curves():
    page = render_report(replace(FULL, verdict=Verdict.FAILED))
    assert page.index("Findings") < page.index("Training") < page.index("Stages")


def test_a_files_change_becomes_a_diff_of_lines():
    fix = fix_of(FileChange("a.py", b"x = 1\ny = 2\n", b"x = 1\ny = 3\n", {"b": 1, "a": 2}, ("line 2",)))
    assert fix.fixers == ("a", "b")
    assert fix.diff.splitlines()[2:] == ["@@ -1,2 +1,2 @@", " x = 1", "-y = 2", "+y = 3"]
    assert fix_of(FileChange("a.bin", b"\xff", b"\xfe\xff", {"a": 1})).diff == "1 bytes before, 2 after"


def test_a_long_diff_is_cut_with_a_note():
    diff = "\n".join(f"+line {n}" for n in range(1000))
    words = Reader(render_report(replace(FULL, fixes=(FixRow(("x",), "a", (), diff),)))).text
    assert "line 399" in words
    assert "line 400" not in words
    assert "600 more lines" in words
