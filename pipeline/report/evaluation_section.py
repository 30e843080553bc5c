"""Render the sections with scores from the evaluation at the end of the training or from `pipeline evaluate`."""

from __future__ import annotations

from pipeline.report.evaluation import MISSING, describe, headings, label
from pipeline.report.evaluation import table as evaluation_table
from pipeline.report.formatting import number, text
from pipeline.report.published import NAMES, PUBLISHED, SOURCE, differences, is_comparable
from pipeline.report.scores import Scores
from pipeline.report.sections import section, side_by_side, table, td
from remote.protocol.evaluation import EvaluationResult


def scores(found: Scores | None) -> str:
    """Return a section with correlations per aspect as bars and the other scores as a table, or "" without scores."""
    if found is None:
        return ""
    head = (
        '<tr><th>aspect</th><th class="n"><span class="key"></span>Pearson</th>'
        '<th class="n"><span class="key second"></span>Spearman</th><th></th></tr>'
    )
    aspects = [
        (
            td(text(aspect.name), "name"),
            td(_share(aspect.pearson), "n"),
            td(_share(aspect.spearman), "n"),
            td(_bar(aspect.pearson) + _bar(aspect.spearman, " second")),
        )
        for aspect in found.aspects
    ]
    others = [(td(text(name)), td(text(number(value)), "n")) for name, value in found.others]
    half = 0 if aspects else -(-len(others) // 2)
    left = table(aspects, head) or table(others[:half])
    return section(f"Evaluation at step {found.step}", side_by_side(left, table(others[half:])))


def evaluation(result: EvaluationResult) -> str:
    """Return a section with every metric of an evaluation, its interval, and the published results."""
    head = "".join(f'<th class="n">{text(name)}</th>' for name in headings(result)[1:])
    rows = [
        (td(text(name), "name"), *(td("–" if value == MISSING else text(value), "n") for value in values))
        for name, *values in evaluation_table(result, variants=True)
        if set(values) != {MISSING}
    ]
    intro = f'<p class="soft">{text(describe(result))}</p>'
    title = f"Evaluation at step {result.step}" if result.step else "Evaluation"
    return section(title, intro + table(rows, f"<tr><th></th>{head}</tr>") + _published(result))


def _published(result: EvaluationResult) -> str:
    """Return all published rows, with a footnote on how the experiments differ, or "" if no metric is published."""
    if not is_comparable(result):
        return ""
    head = "".join(f'<th class="n">{text(label(name))}</th>' for name in NAMES)
    rows = [
        (td(text(row.name) + " †", "name"), *(td(text(f"{value:.3f}"), "n") for value in row.values))
        for row in PUBLISHED
    ]
    notes = "; ".join(differences(result))
    return (
        f"<h3>{text(SOURCE)}</h3>{table(rows, f'<tr><th></th>{head}</tr>')}"
        f'<p class="soft">† differs from this evaluation. {text(notes)}</p>'
    )


def _share(value: float | None) -> str:
    return "–" if value is None else text(f"{value:.3f}".replace("-", "−"))


def _bar(value: float | None, kind: str = "") -> str:
    if value is None:
        return ""
    return f'<span class="bar{kind}"><i style="width:{max(0.0, min(1.0, value)) * 100:.0f}%"></i></span>'
