"""Facts about the host's data collator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class Copy:
    """Another file with the same name. `shadows`: the interpreter would import it before the project's."""

    path: str
    sha256: str
    shadows: bool = False


@dataclass(frozen=True)
class CollatorFacts:
    """The digest that the file has in the host's tree (empty: missing), and every other file of its name.

    `edited`: its bytes differ from those that the sync manifest records.
    """

    digest: str
    edited: bool = False
    copies: Tuple[Copy, ...] = ()
