"""`pipeline explain`: print the page of a stage, fixer, check or error."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from pipeline.pages.find import all_names, page_of
from pipeline.show.page import show_page
from pipeline.show.screen import Screen


def explain(name: str = "", as_json: bool = False) -> int:
    """Print the page that explains a name. Without a name, list all names."""
    screen = Screen(as_json=as_json)
    if name:
        page = page_of(name)
        if not as_json:
            show_page(page)
        screen.closing(Outcome("explain", more={"name": name, "page": page}))
        return 0
    names = list(all_names())
    if not as_json:
        for kind in dict.fromkeys(kind for kind, _ in names):
            screen.heading(f"{kind}s")
            screen.columns(sorted(known for of, known in names if of == kind))
    screen.closing(Outcome("explain", more={"names": [{"kind": kind, "name": known} for kind, known in names]}))
    return 0
