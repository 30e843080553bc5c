"""One page for every check, every known failure and every cure: what `explain` prints and docs/checks/ holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.diagnosis.catalog import Entry, find_entry, load_catalog
from pipeline.diagnosis.checks import Check, find_check, load_checks

CURES = {
    "config:halve-batch": (
        "Half the batch, twice the accumulation",
        "After `CUDA out of memory`, with the built-in trainer only: train.batch_size is halved and "
        "train.gradient_accumulation doubled, so that an optimizer step sees the same samples. Nothing else changes.",
    ),
    "config:expandable-segments": (
        "The allocator may grow its segments",
        "After `CUDA out of memory`: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which undoes fragments. "
        "What is computed does not change.",
    ),
    "config:precision-auto": (
        "The precision the card is judged to train in",
        "After a run in a precision that was asked for has shown not to train, `precision:` becomes `auto`.",
    ),
    "config:leave-label-padding": (
        "What label-padding did is taken back.",
        "After `labels-ignored`: the fixer put -100 into the target of a loss that does not ignore it. The project's "
        "own padding comes back, and the fixer is off for this config from then on.",
    ),
    "config:free-port": (
        "A free port for the launcher",
        "After `address already in use`: MASTER_PORT and torchrun's own PET_MASTER_PORT name a port that nobody "
        "listens on when the job starts.",
    ),
    "retry": (
        "Once more",
        "After a failure that may pass by itself (a hub that does not answer, a card that is held), the run resumes "
        "from its newest verified checkpoint.",
    ),
}


def page_names() -> Iterator[str]:
    """Every name that has a page."""
    yield from (check.name for check in load_checks())
    yield from (entry.id for entry in load_catalog() if find_check(entry.id) is None)
    yield from CURES


def check_page(name: str) -> str | None:
    """The Markdown page for a check, a known failure or a cure; None where there is none of that name."""
    check, entry = find_check(name), find_entry(name)
    parts = [part for part in (_check_text(check) if check else "", _entry_text(entry) if entry else "") if part]
    if name in CURES:
        title, words = CURES[name]
        parts.append(f"{title}.\n\n{words}\n")
    return f"# {name}\n\n" + "\n".join(parts) if parts else None


def _check_text(check: Check) -> str:
    rows = (
        ("Seen by", ", ".join(check.depths)),
        ("Looks at", check.looks),
        ("Passes", check.rule),
        ("Why", check.why),
        ("What to do", check.fix),
        ("What `run` may try by itself", ", ".join(f"`{cure}`" for cure in check.cures)),
    )
    return f"{check.title}.\n\n" + "".join(f"**{label}.** {_sentence(text)}\n\n" for label, text in rows if text)


def _entry_text(entry: Entry) -> str:
    samples = "".join(f"    {sample}\n" for sample in entry.samples)
    rows = (
        ("Cause", entry.cause),
        ("What to do", entry.fix),
        ("Wrong advice in circulation", entry.folk_wrong),
        ("What `run` may try by itself", ", ".join(f"`{cure}`" for cure in entry.cures) or "nothing"),
        ("Sources", "; ".join(entry.sources)),
    )
    body = "".join(f"**{label}.** {_sentence(text)}\n\n" for label, text in rows if text)
    return f"Said in a log ({entry.severity.value}, {entry.stage}):\n\n{samples}\n{body}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "`", "-")) else f"{text}."


def write_pages(folder: Path) -> None:
    """`folder` holds one Markdown file for every page, and an index."""
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
