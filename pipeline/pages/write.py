"""The generated pages: fixers, checks, stages, findings, and every verb's own help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fixers.pages import write_pages as write_fixer_pages
from pipeline.cli.commands import VERBS, help_of
from pipeline.pages.checks import write_pages as write_check_pages
from pipeline.pages.find import load_findings
from pipeline.pages.stages import STAGES

ON_NAMES = """\
`pipeline --install-completion`, typed once, makes your shell complete verbs, hosts (aliases of ~/.ssh/config too),
configs, runs, stages, cards and the names of `explain`. RUN may be a run, its config (the newest of it), or how the
run's name begins; left out, it is the run that was started or resumed last.
"""


def write_all(docs: Path) -> None:
    """`docs` holds every generated page, as the code says it now."""
    write_fixer_pages(docs / "fixers")
    write_check_pages(docs / "checks")
    for name, text in render_all().items():
        (docs / name).write_text(text, "utf-8")


def render_all() -> dict[str, str]:
    """Generated pages that stand in docs/ itself, by file name."""
    return {
        "verbs.md": "".join(_verbs()),
        "stages.md": "".join(_stages()),
        "findings.md": "".join(_findings()),
    }


def _verbs() -> Iterator[str]:
    yield "# Verbs\n\nWritten by `make docs` from the command line itself.\n\n"
    yield ON_NAMES
    for name, verb in VERBS.items():
        summary = verb.summary[:1].upper() + verb.summary[1:]
        yield f"\n## pipeline {name}\n\n{summary}.\n\n```\n{help_of(name).strip()}\n```\n"


def _stages() -> Iterator[str]:
    yield "# Stages\n\nWritten by `make docs`; `pipeline explain STAGE` prints one. `run` shows each as `ok` (its\n"
    yield "checkpoint holds: nothing was done), `done` (made true just now), `failed`, or `to do`.\n"
    for name, text in STAGES.items():
        yield f"\n## {name}\n\n{text.rstrip()}\n"


def _findings() -> Iterator[str]:
    yield "# Findings of hosts, syncs and jobs\n\nWritten by `make docs`. Those of precision and training are in\n"
    yield "[checks](checks/README.md).\n"
    for name, (meaning, cure) in sorted(load_findings().items()):
        yield f"\n## {name}\n\n{meaning}\n\n{cure}\n"
