"""The estimates that the documentation shows agree with the trainings that it shows."""

from __future__ import annotations

import html
import re

from tests.docs.page import DOCS, ROOT, all_pages

UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
TIME = r"((?:[\d.]+ (?:ms|s|min|h)\b ?)+)"
ESTIMATE = re.compile(rf"about {TIME}for all steps,\s+{TIME}to load")
TRAINED = re.compile(rf"train +done .*?  {TIME}$", re.MULTILINE)
TEXT = re.compile(r"<text[^>]*>(.*?)</text>", re.DOTALL)


def seconds(words: str) -> float:
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) (\w+)", words))


def estimates(text: str) -> list[tuple[float, float]]:
    """Return the estimated and the actual seconds of each run whose stages verify and train are shown."""
    found = []
    for estimate in ESTIMATE.finditer(text):
        if trained := TRAINED.search(text, estimate.end()):
            found.append((sum(map(seconds, estimate.groups())), seconds(trained[1])))
    return found


def session() -> str:
    """Return the lines of the recorded terminal of README."""
    picture = (DOCS / "pictures" / "session.svg").read_text("utf-8")
    lines = (re.sub(r"<[^>]+>", "", one.replace("</tspan>", "  ")).rstrip() for one in TEXT.findall(picture))
    return "\n".join(html.unescape(line).replace("\N{NO-BREAK SPACE}", " ") for line in lines)


def test_a_prediction_and_a_training_that_do_not_fit_are_found() -> None:
    verified = "  verify  done  fp32 works: 0.1 s per step, about 4 s for all steps, 1 s to load\n"
    assert estimates(f"{verified}  train   done    x: 36 steps  20 s\n") == [(5.0, 20.0)]


def test_a_shown_training_takes_about_as_long_as_verify_estimates() -> None:
    shown = {"docs/pictures/session.svg": session(), **{name: (ROOT / name).read_text("utf-8") for name in all_pages()}}
    found = [(name, *pair) for name, text in shown.items() for pair in estimates(text)]
    assert "docs/pictures/session.svg" in {name for name, *_ in found}
    assert [one for one in found if not 0.5 < one[1] / one[2] < 2] == []
