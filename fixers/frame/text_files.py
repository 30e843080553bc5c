"""Read the project's text files within a limit of size: an archive of a few kilobytes may contain a huge one."""

from __future__ import annotations

import errno

from fixers.frame.site import Tree
from fixers.sources.unparsable import LARGEST_TEXT


def read_text_file(tree: Tree, path: str) -> bytes:
    """Return the content of a file whose lines or words are analysed, such as requirements, settings or a script.

    Lists of lines or words take up to 200 times the memory of the file. Raises OSError with EFBIG for a file above
    LARGEST_TEXT, like a tree whose files are too large to be read.
    """
    data = tree.read(path)
    if len(data) > LARGEST_TEXT:
        raise OSError(errno.EFBIG, f"{len(data)} bytes: larger than {LARGEST_TEXT >> 20} MiB", path)
    return data
