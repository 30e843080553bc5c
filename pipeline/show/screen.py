"""The terminal: prose on stdout (on stderr under --json), progress on stderr, one JSON object on stdout."""

from __future__ import annotations

import getpass
import json
import sys
import time
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Self

from rich.cells import cell_len, set_cell_size
from rich.markup import escape
from rich.status import Status
from rich.text import Text

from pipeline.messages.as_json import outcome_to_json
from pipeline.messages.outcome import JobOutcome, Outcome, StageOutcome, StageState
from pipeline.messages.quantities import duration
from pipeline.show.console import open_console
from pipeline.show.pace import Pace
from pipeline.show.spark import shares, sparkline
from remote.protocol.findings import Finding, Severity
from remote.protocol.text import safe_json, safe_text

MARKS = {
    StageState.DONE: ("done", "green"),
    StageState.SKIPPED: ("ok", "dim"),
    StageState.FAILED: ("failed", "bold red"),
    StageState.PENDING: ("to do", "yellow"),
    StageState.RUNNING: ("running", "cyan"),
}
ENDS = 6
"""A curve's ends are told as the mean of this share of it, because single steps are noisy."""
DETAIL_S = 5.0
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan", "#": "bold"}
SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


class Screen:
    """One verb's way to the terminal. `as_json`: stdout carries nothing but the closing object."""

    def __init__(self, *, as_json: bool = False, on_stderr: bool = False) -> None:
        self.as_json = as_json
        self.out = open_console(stderr=as_json or on_stderr, soft_wrap=True)
        self.err = open_console(stderr=True, soft_wrap=True)
        self._status: Status | None = None
        self._pace = Pace()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """However the block ends, nothing turns on the terminal any more and its cursor is there."""
        self._stop_status()

    def heading(self, text: str) -> None:
        """A bold line over what follows."""
        self.out.print(Text(safe_text(text), style="bold"))

    def line(self, text: str) -> None:
        """One line of prose."""
        self.out.print(Text(safe_text(text)))

    def words(self, words: Iterable[str]) -> None:
        """Many short words, as many on a line as there is room for; none of them is cut."""
        room = max(40, min(110, self.out.width) - 2)
        for line in wrap("  ".join(safe_text(word) for word in words), room, break_on_hyphens=False):
            self.out.print(Text(f"  {line}"))

    def raw(self, text: str) -> None:
        """Text of the host's or the trainer's, made safe and otherwise as it is, on stdout."""
        sys.stdout.write(safe_text(text))
        sys.stdout.flush()

    def began(self, stage: str) -> None:
        """A spinner turns on a terminal until the stage has ended."""
        self._stop_status()
        if self.err.is_terminal:
            self._status = self.err.status(f"{stage} ...", spinner="dots")
            self._status.start()

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """The spinner says so; where none turns, a line on stderr does, now and then (see Pace)."""
        share = f"  {100 * done / total:3.0f} %" if done is not None and total else ""
        if self._status is not None:
            self._status.update(escape(safe_text(text)) + share)
        elif self._pace.due(text, time.monotonic(), done, total):
            self.err.print(Text(f"  {safe_text(text)}{share}", style="dim"))

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """As progress; where no spinner turns, at most one line in DETAIL_S, whatever the words are."""
        if self._status is not None or self._pace.waited(time.monotonic(), DETAIL_S):
            self.progress(text, done, total)

    def note(self, text: str) -> None:
        """One indented line that stays."""
        self.out.print(Text(f"  {safe_text(text)}"))

    def ended(self, stage: StageOutcome) -> None:
        """The stage's line: its name, how it ended, why, how long it took."""
        self._stop_status()
        word, style = MARKS[stage.state]
        reason = stage.reason.partition(". ")[0] if stage.state is StageState.FAILED else stage.reason
        took = duration(stage.seconds) if stage.seconds >= 0.05 else ""
        self.out.print(
            Text.assemble(
                "  ",
                (f"{stage.name:<12}", "bold"),
                (f"{word:<8}", style),
                safe_text(reason),
                (f"  {took}" if took else "", "dim"),
            )
        )

    def _stop_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def confirm(self, question: str) -> bool:
        """Whether the answer was yes; no where nobody can be asked."""
        if not sys.stdin.isatty():
            return False
        self._stop_status()
        self.err.print(Text(f"{safe_text(question)} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def secret(self, prompt: str) -> str | None:
        """What was typed, not echoed; None where nobody can be asked."""
        if not sys.stdin.isatty():
            return None
        self._stop_status()
        return getpass.getpass(safe_text(prompt), stream=sys.stderr) or None

    def ask(self, question: str, *, default: str = "") -> str:
        """What the user typed, or `default` where nobody can be asked or only Enter was typed."""
        if not sys.stdin.isatty():
            return default
        self.err.print(Text(f"{safe_text(question)}{f' [{default}]' if default else ''} "), end="")
        return sys.stdin.readline().strip() or default

    def findings(self, findings: Iterable[Finding]) -> None:
        """Each with its place and what to do next."""
        for finding in findings:
            self._finding(finding)

    def _finding(self, finding: Finding) -> None:
        first, *rest = safe_text(finding.message).splitlines() or [""]
        style = SEVERITIES[finding.severity]
        self.out.print(Text.assemble((f"{finding.severity.value:<8}", style), first, (f"  [{finding.check}]", "dim")))
        for line in rest:
            self.out.print(Text(f"        {line}"))
        if finding.where:
            self.out.print(Text(f"        in {safe_text(finding.where)}", style="dim"))
        if finding.hint:
            self.out.print(Text.assemble("        next: ", (safe_text(finding.hint), "cyan")))

    def checked(self, findings: Iterable[Finding]) -> None:
        """What was looked at and is well, a line each."""
        for finding in findings:
            if finding.severity is Severity.INFO:
                self.out.print(Text.assemble("  ", (f"{finding.check:<22}", "dim"), safe_text(finding.message)))

    def curve(self, name: str, values: Sequence[float]) -> None:
        """A falling (or rising) line of text with its ends."""
        if len(values) > 1:
            first, last = shares(values, ENDS)[0], shares(values, ENDS)[-1]
            bars = sparkline(values) if self.out.encoding.startswith("utf") else "->"
            self.out.print(Text(f"  {name:<12}{first:.3g} {bars} {last:.3g}"))

    def diff(self, text: str) -> None:
        """A unified diff, coloured where the terminal can."""
        for line in safe_text(text).splitlines():
            self.out.print(Text(line, style=DIFF_STYLES.get(line[:1], "")))

    def entry(self, heading: str, where: str, parts: Iterable[tuple[str, str]]) -> None:
        """Labelled paragraphs under a heading, wrapped to the screen."""
        self.out.print(Text.assemble((safe_text(heading), "bold"), "  ", (safe_text(where), "dim")))
        width = max(40, min(110, self.out.width) - 12)
        for label, words in parts:
            for number, line in enumerate(wrap(safe_text(words), width) or [""]):
                self.out.print(Text(f"    {label if number == 0 else '':<8}{line}"))

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns as wide as they need; on a terminal the last one is folded, elsewhere a row is a line."""
        cells = [[safe_text(cell) for cell in row] for row in rows]
        widths = [max(cell_len(cell) for cell in column) for column in zip(headings, *cells, strict=True)]
        indent = sum(width + 2 for width in widths[:-1])
        room = max(20, self.out.width - indent) if self.out.is_terminal else None
        for row, style in ((headings, "bold"), *((row, "") for row in cells)):
            start = "".join(set_cell_size(cell, width + 2) for cell, width in zip(row, widths, strict=False))
            first, *rest = (wrap(row[-1], room, break_on_hyphens=False) if room else [row[-1]]) or [""]
            self.out.print(Text(f"{start[:indent]}{first}".rstrip(), style=style))
            for line in rest:
                self.out.print(Text(f"{'':<{indent}}{line}"))

    def job(self, job: JobOutcome) -> None:
        """Where the training process is, and how old that knowledge is."""
        steps = f" step {job.step}" + (f" of {job.steps}" if job.steps else "") if job.step is not None else ""
        loss = f", loss {job.loss:.4g}" if job.loss is not None else ""
        age = f" (seen {duration(job.age_s)} ago)" if job.age_s is not None else ""
        self.out.print(Text(f"  job          {job.state.value}{steps}{loss}{age}"))

    def closing(self, outcome: Outcome) -> None:
        """The last words of a verb: findings and where things are, or the one JSON object."""
        self._stop_status()
        if self.as_json:
            sys.stdout.write(safe_json(json.dumps(outcome_to_json(outcome), ensure_ascii=False)) + "\n")
            sys.stdout.flush()
            return
        self.findings(finding for finding in outcome.told if finding.severity is not Severity.INFO)
        for name, path in outcome.artifacts.items():
            self.out.print(Text.assemble("  ", (f"{name:<12}", "bold"), safe_text(path)))
