"""`pipeline docs`: print a page of the manual. Works offline."""

from __future__ import annotations

from pipeline.messages.outcome import Outcome
from pipeline.pages.manual import manual_pages, read_manual, title_of
from pipeline.show.page import show_page
from pipeline.show.screen import Screen


def docs(page: str = "", as_json: bool = False) -> int:
    """Print a page of docs/. Without a page, list all pages with their titles."""
    screen = Screen(as_json=as_json)
    if page:
        text = read_manual(page)
        if not as_json:
            show_page(text)
        screen.closing(Outcome("docs", more={"name": page, "page": text}))
        return 0
    rows = [(name, title_of(path)) for name, path in manual_pages().items()]
    if not as_json:
        screen.table(("page", "title"), rows)
    screen.closing(Outcome("docs", more={"names": [{"name": name, "title": title} for name, title in rows]}))
    return 0
