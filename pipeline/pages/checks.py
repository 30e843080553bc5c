"""The pages of checks, known failures and cures, for `pipeline explain` and docs/checks/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.diagnosis.catalog import Entry, find_entry, load_catalog
from pipeline.diagnosis.checks import Check, find_check, load_checks

CURES = {
    "config:plan-less-memory": (
        "Plan for less of the card's memory",
        "After `CUDA out of memory`, with the built-in trainer only: lowers train.memory_share by 0.2, so that the "
        "trainer chooses a smaller micro-batch or checkpoints more layers. The samples of an optimizer step do not "
        "change.",
    ),
    "config:halve-batch": (
        "Halve the micro-batch",
        "After `CUDA out of memory`, with the built-in trainer only: halves train.micro_batch if the config sets it. "
        "The samples of an optimizer step do not change.",
    ),
    "config:expandable-segments": (
        "Enable expandable segments of the CUDA allocator",
        "After `CUDA out of memory`: sets PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which reduces "
        "fragmentation. Results do not change.",
    ),
    "config:precision-auto": (
        "Choose the precision by the card",
        "After training has failed in the configured precision: sets `precision: auto`.",
    ),
    "config:leave-label-padding": (
        "Undo the fixer label-padding",
        "After `labels-ignored`: the fixer put -100 into the target of a loss that does not ignore -100. The cure "
        "restores the project's own padding and turns the fixer off for this config.",
    ),
    "config:free-port": (
        "Choose a free port for the launcher",
        "After `address already in use`: sets MASTER_PORT and torchrun's PET_MASTER_PORT to a port that is free when "
        "the job starts.",
    ),
    "retry": (
        "Try again",
        "After a failure that may be temporary (the Hugging Face Hub does not respond, the card is in use): resumes "
        "the run from its newest verified checkpoint.",
    ),
}


def page_names() -> Iterator[str]:
    """Yield the name of every check, known failure and cure."""
    yield from (check.name for check in load_checks())
    yield from (entry.id for entry in load_catalog() if find_check(entry.id) is None)
    yield from CURES


def check_page(name: str) -> str | None:
    """Return the Markdown page of a check, a known failure or a cure, or None for any other name."""
    check, entry = find_check(name), find_entry(name)
    parts = [part for part in (_check_text(check) if check else "", _entry_text(entry) if entry else "") if part]
    if name in CURES:
        title, words = CURES[name]
        parts.append(f"{title}.\n\n{words}\n")
    return f"# {name}\n\n" + "\n".join(parts) if parts else None


def _check_text(check: Check) -> str:
    rows = (
        ("Checked by", ", ".join(check.depths)),
        ("Looks at", check.looks),
        ("Expected", check.rule),
        ("Why", check.why),
        ("What to do", check.fix),
        ("What `run` tries", ", ".join(f"`{cure}`" for cure in check.cures)),
    )
    return f"{check.title}.\n\n" + "".join(f"**{label}.** {_sentence(text)}\n\n" for label, text in rows if text)


def _entry_text(entry: Entry) -> str:
    samples = "".join(f"    {sample}\n" for sample in entry.samples)
    rows = (
        ("Cause", entry.cause),
        ("What to do", entry.fix),
        ("Advice that does not work", entry.folk_wrong),
        ("What `run` tries", ", ".join(f"`{cure}`" for cure in entry.cures) or "nothing"),
        ("Sources", "; ".join(entry.sources)),
    )
    body = "".join(f"**{label}.** {_sentence(text)}\n\n" for label, text in rows if text)
    return f"Message in a log ({entry.severity.value}, {entry.stage}):\n\n{samples}\n{body}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "`", "-")) else f"{text}."


def write_pages(folder: Path) -> None:
    """Write one Markdown file per page, and an index, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(page_names())
    for name in names:
        text = check_page(name)
        assert text is not None
        (folder / f"{_file_name(name)}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_index(names), encoding="utf-8")


def _file_name(name: str) -> str:
    return name.replace(":", "-")


def _index(names: list[str]) -> str:
    lines = ["# Checks, failures and cures", "", "`pipeline explain NAME` prints any of these pages.", ""]
    lines += [f"- [{name}]({_file_name(name)}.md)" for name in names]
    return "\n".join(lines) + "\n"
