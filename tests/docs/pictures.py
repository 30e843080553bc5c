"""`make pictures`: create the pictures of README from a real run.

docs/pictures/session.svg shows a terminal during the first command of README, typed twice; it needs no player.
docs/pictures/report.png is the top of the report of that run in Chromium.
"""

from __future__ import annotations

import html
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte

from tests.docs.page import DOCS, Command, read_page, steps
from tests.docs.reader import COLUMNS, Reader
from tests.docs.reader_environment import environment_of
from tests.lab.browser import open_browser
from tests.lab.sshd import Sshd

PICTURES = DOCS / "pictures"
ROWS, PLAYS_S, HOLDS_S, GAP_S = 30, 18.0, 6.0, 0.25
CELL, LINE, MARGIN = 8.4, 18, 14
NO_BREAK = "\N{NO-BREAK SPACE}"  # SVG collapses consecutive spaces
TEXT, GREY, PAPER = "#d3d0c8", "#8f8b84", "#22252a"
COLOURS = {
    "red": "#f2777a",
    "green": "#99cc99",
    "brown": "#ffcc66",
    "cyan": "#66cccc",
    "blue": "#6699cc",
    "magenta": "#cc99cc",
}

Run = tuple[str, str]
"""Some text of a line, and its style."""
Lines = tuple[tuple[Run, ...], ...]


@dataclass
class Recording:
    """The content of a terminal, with times. `above` is the output of earlier commands."""

    began: float = field(default_factory=time.monotonic)
    above: Lines = ()
    frames: list[tuple[float, Lines]] = field(default_factory=list)

    def typed(self, command: str) -> None:
        """Show the command below everything else."""
        prompt: tuple[Run, ...] = (("$ ", f'fill="{GREY}"'), (command, f'fill="{TEXT}" font-weight="bold"'))
        self.above = (*(self.frames[-1][1] if self.frames else ()), prompt)
        self.frames.append((time.monotonic() - self.began, self.above))

    def watch(self, screen: pyte.Screen) -> None:
        """Record the current content of the screen."""
        lines = [runs_of(screen.buffer[row]) for row in range(screen.lines)]
        while lines and not lines[-1]:
            lines.pop()
        self.frames.append((time.monotonic() - self.began, (*self.above, *lines)))

    def played(self) -> list[tuple[float, Lines]]:
        """Return the frames as they are played: within PLAYS_S, one every GAP_S."""
        total = self.frames[-1][0]
        newest = {round(at / total * PLAYS_S / GAP_S): lines for at, lines in self.frames}
        return [(number * GAP_S, lines) for number, lines in sorted(newest.items())]


def runs_of(row: Any) -> tuple[Run, ...]:
    """Return the runs of equal style of a line of the terminal, without the blanks at its end."""
    cells = [(row[column].data, style_of(row[column])) for column in range(COLUMNS)]
    while cells and cells[-1][0] == " ":
        cells.pop()
    return tuple(("".join(text for text, _ in run), style) for style, run in groupby(cells, key=lambda cell: cell[1]))


def style_of(cell: Any) -> str:
    """Return the colour and the weight of a character."""
    colour = COLOURS.get(cell.fg.removeprefix("bright"), f"#{cell.fg}" if len(cell.fg) == 6 else TEXT)
    return f'fill="{colour}"' + (' font-weight="bold"' if cell.bold else "")


def record(reader: Reader, commands: Sequence[Command]) -> Recording:
    """Type the commands one after another. Raises RuntimeError if one fails."""
    recording = Recording()
    for command in commands:
        recording.typed(command.text)
        reader.type_command(command, ROWS, recording.watch)
        if reader.status != 0:
            raise RuntimeError(f"$ {command.text}: exit {reader.status}")
    return recording


def render(frames: Sequence[tuple[float, Lines]]) -> str:
    """Return an SVG that plays the frames in a loop. Without animation, the last frame is visible."""
    height = max(len(lines) for _, lines in frames)
    body = "".join(
        element
        for row in range(height)
        for element in render_row(row, [(at, lines[row] if row < len(lines) else ()) for at, lines in frames])
    )
    width = COLUMNS * CELL + 2 * MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height * LINE + 2 * MARGIN}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n{body}</svg>\n'
    )


def render_row(row: int, states: Sequence[tuple[float, tuple[Run, ...]]]) -> Iterator[str]:
    """Yield one element for each text that a line of the terminal had, visible while the line had it."""
    changes = [next(group) for _, group in groupby(states, key=lambda state: state[1])]
    ends = [at for at, _ in changes[1:]] + [PLAYS_S + HOLDS_S]
    for (begin, runs), end in zip(changes, ends, strict=True):
        if not runs:
            continue
        last, total = end > PLAYS_S, PLAYS_S + HOLDS_S
        values, times = "hidden;visible", f"0;{begin / total:.4f}"
        if not last:
            values, times = f"{values};hidden", f"{times};{end / total:.4f}"
        animation = (
            f'<animate attributeName="visibility" calcMode="discrete" dur="{total:.0f}s" '
            f'repeatCount="indefinite" values="{values}" keyTimes="{times}"/>'
        )
        visible = "" if last else ' visibility="hidden"'
        yield f'<text y="{MARGIN + (row + 1) * LINE - 4}"{visible}>{animation}{"".join(spans_of(runs))}</text>\n'


def spans_of(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the runs of a line, each at its column."""
    column = 0
    for text, style in runs:
        words = text.strip()
        if words:
            start = MARGIN + (column + len(text) - len(text.lstrip())) * CELL
            place = f'x="{start:.1f}" textLength="{len(words) * CELL:.1f}"'
            yield f"<tspan {place} {style}>{html.escape(words).replace(' ', NO_BREAK)}</tspan>"
        column += len(text)


def photograph(report: Path, target: Path, profile: Path) -> None:
    """Take a picture of the top of the report, below the line with the path of the project."""
    with open_browser(profile) as browser:
        browser.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        browser.open(report)
        browser.run("scrollTo(0, 66)")
        browser.driver.save_screenshot(str(target))


def main() -> int:
    """Make both pictures."""
    first = next(step for step in steps(read_page("README.md")) if isinstance(step, Command))
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def start(**options: Any) -> Sshd:
            server = Sshd(root / "titan", **options)
            stack.callback(server.close)
            return server.start()

        reader = Reader(root / "here", environment_of("README.md", root, start))
        recording = record(reader, [first, first])
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / "session.svg").write_text(render(recording.played()), "utf-8")
        photograph(next(reader.folder.glob(".halfstep/runs/*/report.html")), PICTURES / "report.png", root / "profile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
