"""Every fixer there is, in the order in which they see a file: renames first, flips after them, inserted casts last."""

from __future__ import annotations

from fixers.site import Fixer
from fixers.source_fixer import SourceFixer

SOURCE_FIXERS: tuple[SourceFixer, ...] = ()
SETUP_FIXERS: tuple[Fixer, ...] = ()
