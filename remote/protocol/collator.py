"""Facts about the host's data collator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class Copy:
    """Another file with the same name. `shadows`: the interpreter would import it instead of the project's."""

    path: str
    sha256: str
    shadows: bool = False


@dataclass(frozen=True)
class CollatorFacts:
    """The digest of the file in the host's tree ("" if missing), and every other file of its name.

    `edited`: its content differs from the digest in the sync manifest.
    """

    digest: str
    edited: bool = False
    copies: Tuple[Copy, ...] = ()
