"""Facts about the host's data collator."""

from __future__ import annotations

from typing import Tuple

from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import Identifier


@dataclass(frozen=True)
class Copy:
    """Another file with the collator's name.

    If `shadows` is True, the interpreter would import it instead of the project's file.
    """

    path: Identifier
    sha256: Identifier
    shadows: bool = False


@dataclass(frozen=True)
class CollatorFacts:
    """The digest of the collator in the host's tree ("" if missing), and all other files with the same name.

    `edited` is True if the collator's content differs from the digest in the sync manifest.
    """

    digest: Identifier
    edited: bool = False
    copies: Tuple[Copy, ...] = ()
