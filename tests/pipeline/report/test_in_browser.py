"""The report and the comparison of runs in Chromium: values under the pointer, zoom, narrow windows, hostile text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.run_inputs import RunInputs
from pipeline.report.comparison import ComparedRun, compare
from pipeline.report.comparison_page import render_comparison
from pipeline.report.curves import Curve, gather_curves, smooth
from pipeline.report.model import RunReport
from pipeline.report.page import render_report
from remote.protocol.events import Scalar
from remote.protocol.findings import Finding, Severity
from remote.protocol.proof import DtypeRow, ProofReport
from tests.lab.browser import Browser, open_browser, why_no_browser
from tests.pipeline.report.test_report_page import FULL, HOSTILE, hostile

NO_BROWSER = why_no_browser()
pytestmark = pytest.mark.skipif(bool(NO_BROWSER), reason=NO_BROWSER)
GPU = {"gpu_utilization": 97.0, "gpu_memory_bytes": 18.0 * 2**30, "gpu_temperature": 71.0}


def scalars(lift: float = 0.0) -> Iterator[Scalar]:
    for step in range(1, 61):
        values = {"train/loss": 3.0 / step + lift, "train/grad_norm": 1.0 + math.sin(step), "train/loss_scale": 65536.0}
        values |= {f"gpu0/{name}": value + step % 3 for name, value in GPU.items()}
        yield from (Scalar(tag, step, value, 1000.0 + step, "tensorboard/e") for tag, value in values.items())


RUN = replace(FULL, scalars=tuple(scalars()), output="step 59\nstep 60", command="python train.py", commit="0a" * 20)
OTHER = replace(RUN, run="tiny-2222", scalars=tuple(scalars(0.5)))
INPUTS = RunInputs({"train.py": "a" * 64}, {"train": {"learning_rate": 1e-4}}, {"card": "T4 7.5"})


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def written(tmp_path: Path, browser: Browser) -> Iterator[Path]:
    """A file for the page; the console has nothing to report about it."""
    yield tmp_path / "page.html"
    assert browser.problems == []


def write(page: Path, *reports: RunReport) -> Path:
    if len(reports) == 1:
        page.write_text(render_report(reports[0]), "utf-8")
    else:
        changed = replace(INPUTS, files={"train.py": "b" * 64}, settings={"train": {"learning_rate": 2e-4}})
        runs = [ComparedRun(report, inputs) for report, inputs in zip(reports, (INPUTS, changed), strict=True)]
        page.write_text(render_comparison(compare(runs)), "utf-8")
    return page


def curve_of(tag: str) -> Curve:
    return next(curve for curve in gather_curves(RUN.scalars) if curve.tag == tag)


def value(curve: Curve, step: int) -> float:
    return dict(curve.points)[step]


def readouts(browser: Browser) -> list[str]:
    return [" ".join(one.text.split()) for one in browser.all(".readout")]


def test_the_pointer_shows_the_value_of_every_curve_at_its_step(browser: Browser, written: Path) -> None:
    browser.open(write(written, RUN))
    charts = browser.all(".u-over")
    assert readouts(browser)[0] == "step 60 0.05 mean 0.0542"
    browser.move_to(charts[0], 29 / 59)
    means = [f"{value(smooth(curve), 30):.4g}" for curve in map(curve_of, ("train/loss", "train/grad_norm"))]
    assert readouts(browser)[:2] == [f"step 30 0.1 mean {means[0]}", f"step 30 0.01197 mean {means[1]}"]
    assert {words.split()[1] for words in readouts(browser)} == {"30"}
    browser.move_to(browser.all("h1")[0], 0.5)
    assert readouts(browser)[0] == "step 60 0.05 mean 0.0542"


def test_the_arrow_keys_move_from_step_to_step(browser: Browser, written: Path) -> None:
    browser.open(write(written, RUN))
    browser.all(".u-over")[0].send_keys("\ue011", "\ue014", "\ue014")  # Home, right, right
    assert readouts(browser)[0].startswith("step 3 1 mean 1.833")


def test_dragging_zooms_all_curves_and_a_double_click_shows_the_whole_run(browser: Browser, written: Path) -> None:
    browser.open(write(written, RUN))
    charts = browser.all(".u-over")
    assert not browser.all(".whole")[0].is_displayed()
    browser.drag(charts[0], 0.5, 0.75)
    browser.wait("document.documentElement.classList.contains('zoomed')")
    shown = []
    for chart in charts[:2]:
        for share in (0.02, 0.98):
            browser.move_to(chart, share)
            shown.append(int(readouts(browser)[0].split()[1]))
    assert shown == [31, 45, 31, 45]
    browser.pointer().double_click(charts[1]).perform()
    browser.wait("!document.documentElement.classList.contains('zoomed')")
    browser.move_to(charts[0], 0.999)
    assert readouts(browser)[0].startswith("step 60 ")


def test_a_comparison_overlays_its_runs(browser: Browser, written: Path) -> None:
    browser.open(write(written, RUN, OTHER))
    browser.move_to(browser.all(".u-over")[0], 29 / 59)
    mean = value(smooth(curve_of("train/loss")), 30)
    assert readouts(browser)[0] == f"step 30 A {mean:.4g} B {mean + 0.5:.4g}"
    words = " ".join(browser.all("main")[0].text.split())
    assert "2 runs compared" in words and "A tiny-0a1b2c3d" in words and "B tiny-2222" in words
    assert "train.learning_rate 0.0001 0.0002" in words and "train.py aaaaaaaa bbbbbbbb" in words
    colours = {one.value_of_css_property("color") for one in browser.all("figure.wide .readout > span")}
    assert len(colours) == 3


def test_a_run_that_ended_earlier_has_the_step_of_its_value_and_none_after_it(browser: Browser, written: Path) -> None:
    short = replace(OTHER, scalars=tuple(one for one in OTHER.scalars if one.step <= 7))
    browser.open(write(written, RUN, short))
    ends = [f"{smooth(curve).last:.4g}" for curve in (curve_of("train/loss"), loss_of(short))]
    assert readouts(browser)[0] == f"step 60 A {ends[0]} B {ends[1]} (step 7)"
    browser.move_to(browser.all(".u-over")[0], 29 / 59)
    assert readouts(browser)[0].endswith("B –")


def loss_of(report: RunReport) -> Curve:
    return next(curve for curve in gather_curves(report.scalars) if curve.tag == "train/loss")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("reports", [(RUN,), (RUN, OTHER)], ids=["report", "comparison"])
def test_a_phone_shows_the_page_without_scrolling_sideways(
    browser: Browser, written: Path, reports: tuple[RunReport, ...], dark: bool
) -> None:
    browser.open(write(written, *reports), width=400, dark=dark)
    browser.wait("[...document.querySelectorAll('.live canvas')].every(one => one.clientWidth > 0)")
    assert browser.overflow == 0
    widths = browser.run("return [...document.querySelectorAll('.live canvas')].map(one => one.clientWidth)")
    assert widths and min(widths) > 300 and max(widths) <= 400
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(17, 20, 24)" if dark else "rgb(255, 255, 255)")


LONG = replace(
    RUN,
    stages=(StageOutcome("environment", StageState.DONE, 31.5, "Python 3.11.7, torch 2.13.0 " * 7),),
    findings=(Finding("transformers-version", Severity.ERROR, "found 4.1 " * 20, "a/path/" * 9, "pipeline run " * 9),),
    proof=ProofReport((), dtypes=tuple(DtypeRow("state", "float8_e4m3fnuz", 123_456, 10**9, 10**9) for _ in range(3))),
    output="a_word_without_spaces" * 30,
    config_text="model: {id: microsoft/Phi-4-multimodal-instruct, revision: " + "0a" * 40 + "}",
)
CUT = """return [...document.querySelectorAll('.scroll, pre, td, dd, p')]
    .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("reports", [(LONG,), (LONG, replace(LONG, run="tiny-2222"))], ids=["report", "comparison"])
def test_no_table_or_text_is_cut_off_on_a_phone(
    browser: Browser, written: Path, reports: tuple[RunReport, ...]
) -> None:
    browser.open(write(written, *reports), width=400)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run(CUT) == []
    if len(reports) == 1:
        reason, stage = browser.all(".rows td.words")[0], browser.all(".rows td.name")[0]
        assert reason.size["width"] > 300, "it has the whole width"
        assert reason.location["y"] > stage.location["y"]


BROKEN = """return [...document.querySelectorAll('td, th')].flatMap(cell => {
    const broken = [], walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walk.nextNode())
        for (const word of walk.currentNode.data.matchAll(/\\S+/g)) {
            const range = document.createRange();
            range.setStart(walk.currentNode, word.index);
            range.setEnd(walk.currentNode, word.index + word[0].length);
            if (new Set([...range.getClientRects()].map(one => one.top)).size > 1) broken.push(word[0]);
        }
    return broken;
})"""


@pytest.mark.parametrize("reports", [(RUN,), (RUN, OTHER), (RUN, OTHER, OTHER)], ids=["report", "two", "three"])
def test_no_word_of_a_table_is_broken_on_a_phone(
    browser: Browser, written: Path, reports: tuple[RunReport, ...]
) -> None:
    reports = tuple(replace(one, run=f"{one.run}-{at}") for at, one in enumerate(reports))
    commands = ("python src/train.py --config paper_r64", "python src/train.py", "accelerate launch train.py")
    runs = [
        ComparedRun(one, replace(INPUTS, settings={"command": command, "train.gradient_accumulation": command[0]}))
        for one, command in zip(reports, commands, strict=False)
    ]
    written.write_text(render_comparison(compare(runs)) if len(runs) > 1 else render_report(reports[0]), "utf-8")
    browser.open(written, width=400)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    # A line may end after a hyphen, and a digest is longer than a line.
    assert [word for word in browser.run(BROKEN) if len(word) < 20 and "-" not in word] == []
    assert browser.overflow == 0


def test_without_scripts_and_on_paper_the_drawings_stay(browser: Browser, written: Path) -> None:
    browser.open(write(written, RUN), scripts=False)
    assert all(one.is_displayed() for one in browser.all("svg.chart"))
    assert len(browser.all("svg.chart")) == 6 and not browser.all("canvas")
    browser.open(written)
    assert not any(one.is_displayed() for one in browser.all("svg.chart"))
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert all(one.is_displayed() for one in browser.all("svg.chart"))
    assert not any(one.is_displayed() for one in browser.all("canvas"))
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("count", [1, 2], ids=["report", "comparison"])
def test_BI_55_markup_in_any_text_is_shown_and_does_not_run(browser: Browser, written: Path, count: int) -> None:
    attack = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>" + HOSTILE
    bad = replace(hostile(FULL), output=attack, scalars=(*hostile(FULL).scalars, *FULL.scalars))
    browser.open(write(written, *([bad, replace(bad, run=attack)][:count])))
    browser.move_to(browser.all(".u-over")[0], 0.5)
    assert "taken" not in browser.driver.title
    assert not browser.all("img") and browser.overflow == 0
    assert len(browser.all("figure.drawn")) == len(browser.all("figure.curve")) > 0


def test_values_that_are_not_numbers_do_not_stop_the_page(browser: Browser, written: Path) -> None:
    broken = [Scalar("train/loss", step, math.nan if step % 2 else 1.0, 1.0, "e") for step in range(1, 30)]
    all_broken = [Scalar("train/grad_norm", step, math.inf, 1.0, "e") for step in range(1, 30)]
    browser.open(write(written, replace(RUN, scalars=(*broken, *all_broken))))
    assert len(browser.all("figure.drawn")) == 2


def curve(tag: str, *points: tuple[int, float]) -> tuple[Scalar, ...]:
    return tuple(Scalar(tag, step, value, 1000.0 + at, "tensorboard/e") for at, (step, value) in enumerate(points))


EXTREME = [
    pytest.param("train/loss", ((2**53 - 2, 1.0), (2**53 - 1, 0.9), (2**53, 0.8)), 0, id="steps beside 2**53"),
    pytest.param("train/x", tuple((2**51 + at, 1.0) for at in range(3)), 0, id="steps beside 2**51"),
    pytest.param("train/x", ((-(2**63), 1.0), (0, 0.9), (2**63 - 1, 0.8)), 0, id="the first and the last step"),
    pytest.param("train/x", ((2**62, 1.0), (2**62 + 1, 0.9)), 0, id="steps that are one number in a browser"),
    pytest.param("train/loss", ((1, 1e-300), (2, 1.0)), 0, id="a loss near 0"),
    pytest.param("train/loss", ((1, 1e-90), (2, 1e17), (3, 1e-90)), 1, id="losses of many powers of ten"),
    pytest.param("train/loss_scale", ((1, 5e-324), (2, 0.0)), 0, id="a loss scale near 0"),
    pytest.param("train/loss_scale", ((1, -1.0), (2, 0.0), (3, 0.0)), 1, id="a loss scale of 0"),
    pytest.param("train/loss", ((1, 1e308), (2, -1e308), (3, math.nan), (4, 1.0)), 1, id="infinite losses"),
    pytest.param("train/x", tuple((10**15 - 3 + at, 1e15 + at) for at in range(4)), 1, id="the largest steps"),
]


@pytest.mark.parametrize("count", [1, 2], ids=["report", "comparison"])
@pytest.mark.parametrize(("tag", "points", "drawn"), EXTREME)
def test_numbers_that_the_script_cannot_draw_do_not_fill_the_memory_of_a_browser(
    browser: Browser, written: Path, tag: str, points: tuple[tuple[int, float], ...], drawn: int, count: int
) -> None:
    bad = replace(FULL, losses=(), loss_steps=(), scalars=curve(tag, *points))
    with browser.short_arrays():
        browser.open(write(written, *([bad, replace(bad, run="tiny-2222")][:count])))
        assert len(browser.all("figure.curve")) == 1
        assert len(browser.all("figure.drawn")) == drawn
        assert browser.all("svg.chart")[0].is_displayed() is not bool(drawn)


def test_a_curve_that_the_script_cannot_draw_leaves_the_other_curves_as_they_are(
    browser: Browser, written: Path
) -> None:
    browser.open(write(written, replace(RUN, scalars=(*RUN.scalars, *curve("train/x", (1, 1.0), (2**53, 2.0))))))
    assert len(browser.all("figure.curve")) == 7 and len(browser.all("figure.drawn")) == 6
    assert len([one for one in browser.all("svg.chart") if one.is_displayed()]) == 1
    assert readouts(browser)[0] == "step 60 0.05 mean 0.0542"


@pytest.mark.parametrize(
    ("good", "bad"),
    [('"steps":[1,2]', f'"steps":[{2**53 - 1},{2**53}]'), ('"values":[0.5,0.25]', '"values":[1e-300,1]')],
    ids=["steps", "values"],
)
def test_the_script_leaves_data_alone_that_it_cannot_draw(browser: Browser, written: Path, good: str, bad: str) -> None:
    write(written, replace(FULL, losses=(), loss_steps=(), scalars=curve("train/x", (1, 0.5), (2, 0.25))))
    page = written.read_text("utf-8")
    assert page.count(good) == 1
    written.write_text(page.replace(good, bad), "utf-8")
    with browser.short_arrays():
        browser.open(written)
        assert not browser.all("figure.drawn") and browser.all("svg.chart")[0].is_displayed()


def test_a_zoom_into_the_space_between_two_large_steps_ends(browser: Browser, written: Path) -> None:
    steps = curve("train/loss", (10**15 - 2, 1.0), (10**15 - 1, 0.5), (10**15, 0.2))
    with browser.short_arrays():
        browser.open(write(written, replace(FULL, scalars=steps)))
        for _ in range(4):
            browser.drag(browser.all(".u-over")[0], 0.5, 0.6)
        assert browser.run("return document.documentElement.classList.contains('zoomed')")
