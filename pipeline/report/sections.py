"""Render the sections of the page. A section without content is an empty string."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fixers.frame.change import gather_reasons
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.report.formatting import duration, number, text
from pipeline.report.model import CureRow, Facts, FixRow, JobRow
from pipeline.report.panels import Drawn
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState
from remote.protocol.proof import DtypeRow, ProofReport
from remote.protocol.quantities import count, memory

MAX_DIFF_LINES = 400
LINES = (
    "Thin line: each logged value. Thick line: the mean over the last 10 optimizer steps, or over the last thirtieth "
    "of a longer run. "
)
GUIDE = (
    '<span class="interactive">Drag across a curve to zoom all curves; double-click to see the '
    "whole run again. The arrow keys move from step to step.</span>"
)
STAGE_TONES = {
    StageState.DONE: "good",
    StageState.SKIPPED: "quiet",
    StageState.FAILED: "bad",
    StageState.STOPPED: "warn",
    StageState.PENDING: "quiet",
    StageState.RUNNING: "calm",
}
JOB_TONES = {
    JobState.SUCCEEDED: "good",
    JobState.RUNNING: "calm",
    JobState.STOPPED: "warn",
    JobState.FAILED: "bad",
    JobState.LOST: "bad",
}
FINDING_TONES = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.INFO: "good"}
SEVERE = (Severity.ERROR, Severity.WARNING, Severity.INFO)
OK = "ok"
KINDS = {"trainable": "trainable", "frozen": "frozen", "buffer": "buffers", "state": "optimizer state"}


def section(title: str, body: str) -> str:
    """Return a titled section, or an empty string for an empty body."""
    return f"<section><h2>{text(title)}</h2>{body}</section>" if body else ""


def pill(words: str, tone: str) -> str:
    """Return a label. `tone` is a CSS class of style.css: good, calm, warn, bad or quiet."""
    return f'<span class="pill {tone}">{text(words)}</span>'


def charts(loss: Drawn | None, panels: Sequence[Drawn]) -> str:
    """Return the loss as a wide chart with an explanation, and the other curves as small charts."""
    wide = _figure(loss, " wide") if loss else ""
    small = "".join(_figure(panel) for panel in panels)
    drawn = [*([loss] if loss else []), *panels]
    lines = LINES if any(chart.has_means for chart in drawn) else ""
    guide = f'<p class="guide">{lines}{GUIDE}</p>' if drawn else ""
    return section("Training", wide + (f'<div class="charts">{small}</div>' if small else "") + guide)


def _figure(drawn: Drawn, kind: str = "") -> str:
    note = f" <small>{drawn.note}</small>" if drawn.note else ""
    data = f'<script type="application/json">{drawn.data}</script>' if drawn.data else ""
    return f'<figure class="curve{kind}"><figcaption><b>{drawn.title}</b>{note}</figcaption>{drawn.svg}{data}</figure>'


def td(body: str, kind: str = "") -> str:
    """Return one table cell; `body` is HTML."""
    return f'<td class="{kind}">{body}</td>' if kind else f"<td>{body}</td>"


def table(rows: Iterable[Sequence[str]], head: str = "", kind: str = "") -> str:
    """Return a table, or an empty string if there are no rows."""
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f'<div class="scroll {kind}"><table>{head}{body}</table></div>' if body else ""


def stages(rows: Iterable[StageOutcome]) -> str:
    """Return a table of the stages: state, duration and reason."""
    body = [
        (
            td(text(row.name), "name"),
            td(pill(row.state.value, STAGE_TONES[row.state]), "tag"),
            td(text(duration(row.seconds)) if row.seconds else "", "n"),
            td(text(row.reason), "soft words"),
        )
        for row in rows
    ]
    return section("Stages", table(body, kind="rows"))


def jobs(rows: Sequence[JobRow]) -> str:
    """Return a table of the jobs, or "" if there is only one job, which succeeded."""
    if len(rows) < 2 and all(row.state is JobState.SUCCEEDED for row in rows):
        return ""
    body = [
        (
            td(f"job {row.number}", "name"),
            td(pill(row.state.value, JOB_TONES.get(row.state, "quiet")), "tag"),
            td(_job_details(row), "words"),
            td(text(duration(row.seconds)) if row.seconds else "", "n"),
        )
        for row in rows
    ]
    return section("Jobs", table(body, kind="rows"))


def _job_details(row: JobRow) -> str:
    reason = f'<span class="soft">{text(row.reason)}</span>' if row.reason else ""
    return "<br>".join(part for part in (_span(row), reason) if part)


def _span(row: JobRow) -> str:
    """Return the steps of a job, or "" if they are unknown.

    The first step of a later job is shown only if it is known.
    """
    if row.last_step is None:
        return ""
    first = 0 if row.first_step is None and row.number == 1 else row.first_step
    if first is None:
        return f"to step {row.last_step}"
    restarted = ", started again" if first == 0 and row.number > 1 else ""
    return f"steps {first} to {row.last_step}{restarted}"


def proof(report: ProofReport | None) -> str:
    """Return the measurements, the table of dtypes and every check, errors first. Return "" without a proof."""
    if report is None:
        return ""
    seen = sorted(report.findings, key=lambda one: SEVERE.index(one.severity))
    rows = [(one.check, _word(one), FINDING_TONES[one.severity], one.message) for one in seen]
    rows += [(one.check, "not checked", "quiet", one.reason) for one in report.unseen]
    passed = [row for row in rows if row[1] == OK]
    checks = _checks(row for row in rows if row[1] != OK)
    if passed:
        checks += f"<details><summary>{count(len(passed), 'check')} passed</summary>{_checks(passed)}</details>"
    facts = [(name, value) for name, value in report.report.facts if not name.startswith("not checked")]
    measured = table((td(text(name), "tag soft"), td(text(value))) for name, value in facts if value)
    top = side_by_side(_dtypes(report.dtypes), measured)
    return section("Proof before the training", top + checks)


def _checks(rows: Iterable[tuple[str, str, str, str]]) -> str:
    found = "".join(
        f'<div class="check">{pill(word, tone)} <b>{text(check)}</b> <span class="soft">{text(words)}</span></div>'
        for check, word, tone, words in rows
    )
    return f'<div class="checks">{found}</div>' if found else ""


def _word(finding: Finding) -> str:
    return OK if finding.severity is Severity.INFO else finding.severity.value


def _dtypes(rows: Iterable[DtypeRow]) -> str:
    head = (
        '<tr><th></th><th>dtype</th><th class="n">tensors</th><th class="n">numbers</th><th class="n">memory</th></tr>'
    )
    body = [
        (
            td(text(KINDS.get(row.kind, row.kind)), "name"),
            td(text(row.dtype), "mono"),
            td(text(number(row.tensors)), "n"),
            td(text(_short(row.elements)), "n"),
            td(text(memory(row.bytes)), "n"),
        )
        for row in rows
    ]
    return table(body, head)


def _short(amount: int) -> str:
    for factor, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if amount >= factor:
            return f"{amount / factor:.3g} {unit}"
    return str(amount)


def fixes(rows: Sequence[FixRow]) -> str:
    """Return each change with its reasons and its folded diff."""
    return section("Fixes", "".join(_fix(row) for row in rows))


def _fix(row: FixRow) -> str:
    path = f' <span class="mono soft">{text(row.path)}</span>' if row.path else ""
    why = f"<ul>{''.join(f'<li>{text(reason)}</li>' for reason in gather_reasons(row.why))}</ul>" if row.why else ""
    diff = ""
    if row.diff:
        words = count(len(row.diff.splitlines()), "line")
        diff = f'<details class="screen"><summary>diff, {words}</summary><pre>{_diff(row.diff)}</pre></details>'
    return f'<div class="fix"><b>{text(", ".join(row.fixers))}</b>{path}{why}{diff}</div>'


def _diff(diff: str) -> str:
    lines = diff.splitlines()
    shown = [f"<b{_diff_class(line)}>{text(line) or ' '}</b>" for line in lines[:MAX_DIFF_LINES]]
    if len(lines) > MAX_DIFF_LINES:
        shown.append(f'<b class="hunk">{count(len(lines) - MAX_DIFF_LINES, "more line")}</b>')
    return "".join(shown)


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return ' class="hunk"'
    return {"+": ' class="add"', "-": ' class="del"'}.get(line[:1], "")


def cures(rows: Iterable[CureRow]) -> str:
    """Return a table of the failures that were cured."""
    head = "<tr><th>error</th><th></th><th>cause</th><th>what was done</th></tr>"
    body = [
        (
            td(text(row.error), "name"),
            td(f"job {row.job}" if row.job else "", "tag soft"),
            td(text(row.cause), "soft words"),
            td(text(row.done), "words"),
        )
        for row in rows
    ]
    return section("Cured while training", table(body, head, "rows"))


def findings(rows: Iterable[Finding]) -> str:
    """Return a table of findings with their places and hints."""
    body = [
        (
            td(text(row.check), "name"),
            td(pill(_word(row), FINDING_TONES[row.severity]), "tag"),
            td(text(row.message) + _where(row), "words"),
        )
        for row in rows
    ]
    return section("Findings", table(body, kind="rows"))


def _where(finding: Finding) -> str:
    parts = []
    if finding.where:
        parts.append(f'<span class="mono soft">in {text(finding.where)}</span>')
    if finding.hint:
        parts.append(f'<span class="soft">next:</span> <code>{text(finding.hint)}</code>')
    return "".join(f"<br>{part}" for part in parts)


def facts(title: str, rows: Facts) -> str:
    """Return a table of names and values."""
    return section(title, table((td(text(name), "tag soft"), td(text(value))) for name, value in rows))


def source(title: str, words: str, *, is_open: bool = False) -> str:
    """Return a section with a text file, folded unless `is_open`, or "" for an empty text."""
    if not words:
        return ""
    state = " open" if is_open else ""
    lines = count(len(words.splitlines()), "line")
    inner = f"<details{state}><summary>{lines}</summary><pre>{text(words)}</pre></details>"
    return f'<div class="screen">{section(title, inner)}</div>'


def side_by_side(*sections: str) -> str:
    """Return the sections in two columns. A single non-empty section gets the full width."""
    full = [section for section in sections if section]
    if len(full) < 2:
        return "".join(full)
    return f'<div class="two">{"".join(f"<div>{section}</div>" for section in full)}</div>'
