"""A page of Markdown: drawn where the terminal can, as it is written where it goes into a file."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text


def show_page(markdown: str) -> None:
    """The page is on stdout."""
    out = Console(highlight=False)
    out.print(Markdown(markdown)) if out.is_terminal else out.print(Text(markdown), soft_wrap=True)
