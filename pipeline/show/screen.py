"""Print stages, tables and outcomes on stdout, and progress on stderr; with --json, only the JSON object on stdout."""

from __future__ import annotations

import getpass
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from rich.text import Text

from pipeline.messages.as_json import outcome_to_json
from pipeline.messages.outcome import JobOutcome, Outcome, StageOutcome, StageState
from pipeline.show.columns import fitting_columns, table_rows
from pipeline.show.console import open_console, read_line
from pipeline.show.job import job_details
from pipeline.show.live_view import LiveView
from pipeline.show.plain import headed, plain, unlike_hint, without_next
from pipeline.show.spark import sparkline
from pipeline.show.throttle import Throttle
from pipeline.show.training import describe_news
from pipeline.show.wrapping import wrap_hint, wrap_text, wrap_words
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobNews, JobState
from remote.protocol.loss import loss_text, mean_loss_text
from remote.protocol.quantities import duration
from remote.protocol.text import one_line, safe_json, safe_text

MARKS = {
    StageState.DONE: ("done", "green"),
    StageState.SKIPPED: ("ok", "dim"),
    StageState.FAILED: ("failed", "bold red"),
    StageState.STOPPED: ("stopped", "yellow"),
    StageState.PENDING: ("to do", "yellow"),
    StageState.RUNNING: ("running", "cyan"),
}
DETAIL_S = 5.0
STAGE_INDENT = 22
FINDING_INDENT = 8
LABEL_INDENT = 15
ARTIFACT_INDENT = 14
ANSWERS = {"y": True, "yes": True, "n": False, "no": False}
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan", "#": "bold"}
SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


class Screen:
    """The output of one verb. With `as_json`, only the JSON object is printed to stdout."""

    def __init__(self, *, as_json: bool = False, on_stderr: bool = False) -> None:
        self.as_json = as_json
        self.out = open_console(stderr=as_json or on_stderr, soft_wrap=True)
        self.err = open_console(stderr=True, soft_wrap=True)
        self._live: LiveView | None = None
        self._throttle = Throttle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Erase the live view and show the cursor, even after an error."""
        self._stop_live()

    def heading(self, text: str) -> None:
        """End the live view and print a bold line."""
        self._stop_live()
        self.out.print(Text(one_line(text), style="bold"))

    def line(self, text: str) -> None:
        """Print one line."""
        self.out.print(Text(one_line(text)))

    def columns(self, words: Iterable[str]) -> None:
        """Print short words, as many per line as fit. No word is broken."""
        for line in wrap_words("  ".join(map(one_line, words)), max(40, min(110, self.out.width) - 2)):
            self.out.print(Text(f"  {line}"))

    def raw(self, text: str) -> None:
        """Write output of the host or the trainer to stdout. Only control characters are replaced."""
        sys.stdout.write(safe_text(text))
        sys.stdout.flush()

    def stage_started(self, stage: str) -> None:
        """On a terminal that can redraw lines, show the stage and its progress until the stage has ended."""
        self._stop_live()
        if self.err.is_terminal and not self.err.is_dumb_terminal:
            self._live = LiveView(self.err, keeps_stdout=not self.out.is_terminal)
            self._live.start(stage)

    @property
    def is_live(self) -> bool:
        """Return True while a stage is shown live."""
        return self._live is not None

    def progress(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Update the live view. Without a live view, print lines to stderr at limited intervals (see `Throttle`)."""
        share = f"  {100 * done / total:3.0f} %" if done is not None and total else ""
        if self._live is not None:
            self._live.message(plain(text), done / total if done is not None and total else None)
        elif self._throttle.due(text, time.monotonic(), done, total):
            for line in self._wrapped(f"{plain(text)}{share}", 2):
                self.err.print(Text(f"  {line}", style="dim"))

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Like `progress`, but without a live view at most one line is printed in DETAIL_S seconds."""
        if self._live is not None or self._throttle.waited(time.monotonic(), DETAIL_S):
            self.progress(text, done, total)

    def training(self, news: JobNews) -> None:
        """Show the newest state of a job in the live view. Without a live view, print a progress line."""
        if self._live is not None:
            self._live.training(news)
        elif news.progress is not None:
            self.progress(describe_news(news), news.progress.step, news.progress.steps)
        elif news.state is JobState.RUNNING:
            self.progress(describe_news(news))

    def note(self, text: str, command: str = "") -> None:
        """Print an indented text above the live view, and below it a command, which is not wrapped."""
        self._note([*self._wrapped(plain(text), 2), *([plain(command)] if command else [])])

    def next_step(self, hint: str, indent: int = 2, style: str = "") -> None:
        """Print the command that the user can type next, or what else the user can do next. See `headed`."""
        (head, hint), width = headed(one_line(hint)), self.out.width
        lines = wrap_hint(hint, max(20, width - indent - len(head))) if self.out.is_terminal else [hint]
        self._after_heading(Text(" " * indent + head), lines, style)

    def _note(self, lines: Iterable[str]) -> None:
        # Text must be printed by the live view's console; any other console would overwrite parts of the view.
        same = self._live is not None and self.out.is_terminal
        (self.err if same else self.out).print(Text("\n".join(f"  {line}" for line in lines)))

    def stage_ended(self, stage: StageOutcome) -> None:
        """Print the stage's line: its name, state, reason and duration."""
        self._stop_live()
        word, style = MARKS[stage.state]
        reason = stage.reason.partition(". ")[0] if stage.state is StageState.FAILED else stage.reason
        took = f"  {duration(stage.seconds)}" if stage.seconds >= 0.05 else ""
        mark = Text.assemble("  ", (f"{one_line(stage.name):<12}", "bold"), (f"{word:<8}", style))
        *lines, last = self._wrapped(plain(reason) + took, STAGE_INDENT, took.strip())
        if not lines:
            self.out.print(Text.assemble(mark, last.removesuffix(took), (took, "dim")))
            return
        self._after_heading(mark, [*lines, last])

    def _after_heading(self, head: Text, lines: Sequence[str], style: str = "") -> None:
        """Print lines to the right of a heading. Lines that do not fit are printed below the heading, further left."""
        indent, width = head.cell_len, self.out.width if self.out.is_terminal else 0
        if width and len(lines[0]) > width - indent:
            self.out.print(Text(head.plain.rstrip(), spans=head.spans))
            head = Text("")
        for number, line in enumerate(lines):
            room = max(0, min(indent, width - len(line))) if width else indent
            self.out.print(Text.assemble(head if number == 0 and head else Text(" " * room), (line, style)))

    def _wrapped(self, words: str, indent: int, last: str = "") -> list[str]:
        """Wrap the text to the width of the terminal minus the indentation. Words, paths and `last` are not broken."""
        if not self.out.is_terminal or len(words) <= self.out.width - indent:
            return [words]
        return wrap_text(words, max(20, self.out.width - indent), self.out.width, last)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def confirm(self, question: str, *, default: bool = False) -> bool:
        """Ask a yes/no question until the answer is one of ANSWERS.

        Return `default` if only Enter was typed, and False without a terminal or at the end of the input.
        """
        if not sys.stdin.isatty():
            return False
        self._stop_live()
        self._print_question(f"{safe_text(question)} {'[Y/n]' if default else '[y/N]'}")
        while (line := read_line(self.err)).endswith("\n"):
            answer = {**ANSWERS, "": default}.get(line.strip().lower())
            if answer is not None:
                return answer
            self._print_question("please type y or n:")
        return False

    def can_confirm(self) -> bool:
        """Return True if stdin is a terminal."""
        return sys.stdin.isatty()

    def secret(self, prompt: str) -> str | None:
        """Read a secret without echo; return None without a terminal. The prompt is shown on one line."""
        if not sys.stdin.isatty():
            return None
        self._stop_live()
        return getpass.getpass(one_line(prompt), stream=sys.stderr) or None

    def ask(self, question: str, *, default: str = "") -> str:
        """Ask a question; return `default` without a terminal or if only Enter was typed."""
        if not sys.stdin.isatty():
            return default
        self._print_question(f"{one_line(question)}{f' [{one_line(default)}]' if default else ''}")
        return read_line(self.err).strip() or default

    def _print_question(self, question: str) -> None:
        """Print a question without a newline at the end."""
        lines = [line for part in question.splitlines() for line in self._wrapped(part, 1)]
        self.err.print(Text("\n".join(lines) + " "), end="")

    def findings(self, findings: Iterable[Finding]) -> None:
        """Print each finding with its location and its hint."""
        for finding in findings:
            self._finding(finding)

    def _finding(self, finding: Finding) -> None:
        first, *rest = without_next(safe_text(finding.message)).splitlines() or [""]
        name = f"  [{plain(finding.check)}]"
        first, *folded = self._wrapped(first + name, FINDING_INDENT)
        style, dim = SEVERITIES[finding.severity], name if first.endswith(name) else ""
        mark = (f"{finding.severity.value:<{FINDING_INDENT}}", style)
        self.out.print(Text.assemble(mark, first.removesuffix(dim), (dim, "dim")))
        for line in (*folded, *(part for more in rest for part in self._wrapped(more, FINDING_INDENT))):
            self.out.print(Text(" " * FINDING_INDENT + line))
        if finding.where:
            self._after_heading(
                Text(" " * FINDING_INDENT), self._wrapped(f"in {plain(finding.where)}", FINDING_INDENT), "dim"
            )
        if finding.hint:
            self.next_step(finding.hint, FINDING_INDENT, "cyan")

    def passed(self, findings: Iterable[Finding]) -> None:
        """Print the findings of severity info, one line each: the checks that passed."""
        for finding in findings:
            if finding.severity is Severity.INFO:
                self.out.print(Text.assemble("  ", (f"{plain(finding.check):<22}", "dim"), plain(finding.message)))

    def curve(self, name: str, values: Sequence[float]) -> None:
        """Print a sparkline between the first and the last value."""
        if len(values) > 1:
            bars = sparkline(values) if self.out.encoding.startswith("utf") else "->"
            self.out.print(Text(f"  {one_line(name):<12}{loss_text(values[0])} {bars} {loss_text(values[-1])}"))

    def diff(self, text: str) -> None:
        """Print a unified diff. On a terminal it is coloured, its comments are wrapped, and no line is like a hint."""
        for line in map(unlike_hint if self.out.is_terminal else str, safe_text(text).splitlines()):
            shown = "\n#   ".join(self._wrapped(line, 4)) if line.startswith("# ") else line
            self.out.print(Text(shown, style=DIFF_STYLES.get(line[:1], "")))

    def entry(self, heading: str, where: str, parts: Iterable[tuple[str, str]]) -> None:
        """Print labelled paragraphs under a heading, wrapped to the width of the terminal."""
        self.out.print(Text.assemble((one_line(heading), "bold"), "  ", (one_line(where), "dim")))
        self.labelled(parts)

    def labelled(self, parts: Iterable[tuple[str, str]], label_width: int = 8, *, hints: bool = False) -> None:
        """Print labelled paragraphs or hints, wrapped to the terminal's width. A long label is on a separate line."""
        width = max(40, min(110, self.out.width) - label_width - 4)
        for label, words in ((one_line(label), words) for label, words in parts):
            is_long = len(label) >= label_width
            if is_long:
                self.out.print(Text(f"    {label}"))
            for number, line in enumerate((wrap_hint if hints else wrap_words)(safe_text(words), width)):
                self.out.print(Text(f"    {label if number == 0 and not is_long else '':<{label_width}}{line}"))

    def table(self, headings: Sequence[str], rows: Iterable[Sequence[str]], optional: Sequence[str] = ()) -> None:
        """Print a table: wrapped between words on a terminal, otherwise one line for each row.

        If the terminal is too narrow, columns are removed in the order of `optional`.
        """
        cells = [[plain(cell) for cell in row] for row in rows]
        if self.out.is_terminal:
            headings, cells = fitting_columns(headings, cells, optional, self.out.width)
        for number, lines in enumerate(table_rows([headings, *cells], self.out.width if self.out.is_terminal else 0)):
            for line in lines:
                self.out.print(Text(line, style="" if number else "bold"))

    def job(self, job: JobOutcome) -> None:
        """Print the job's state, step and loss. If these are local records, also print their age."""
        steps = f" {job.unit} {job.step}" + (f" of {job.steps}" if job.steps else "") if job.step is not None else ""
        loss = f", {mean_loss_text(job.loss)}" if job.loss is not None else ""
        age = f" (seen {duration(job.age_s)} ago)" if job.age_s is not None else ""
        details = job_details(job, bars=self.out.encoding.startswith("utf"))
        waits = f": {job.waits}" if job.waits else ""
        for label, words in (("job", f"{job.shown_state}{waits}{steps}{loss}{age}"), *details):
            self._after_heading(Text(f"  {label:<13}"), self._wrapped(plain(words), LABEL_INDENT))

    def closing(self, outcome: Outcome) -> None:
        """End the verb's output with its findings and artifacts, or print the JSON object."""
        self._stop_live()
        if self.as_json:
            text = json.dumps(outcome_to_json(outcome), ensure_ascii=False, allow_nan=False)
            print(safe_json(text), flush=True)
            return
        self.findings(finding for finding in outcome.shown_findings if finding.severity is not Severity.INFO)
        for name, path in outcome.artifacts.items():
            head = Text.assemble("  ", (f"{one_line(name):<12}", "bold"))
            self._after_heading(head, self._wrapped(one_line(self._short(path)), ARTIFACT_INDENT))

    def _short(self, path: str) -> str:
        """On a terminal, return paths inside the current folder as relative paths."""
        inside = self.out.is_terminal and Path(path).is_relative_to(Path.cwd())
        return str(Path(path).relative_to(Path.cwd())) if inside else path
