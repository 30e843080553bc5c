"""Read files that somebody else may have created: only regular files, and only up to a limit."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from typing import Optional, Union

# Without O_NONBLOCK, the kernel would wait for the writer of a FIFO. Windows has neither flag.
FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: Union[str, os.PathLike[str]], *, follow: bool = False, dir_fd: Optional[int] = None) -> FileIO:
    """Open a regular file without blocking. Raises OSError for any other file, or for a link if `follow` is False.

    With `dir_fd`, the descriptor of an open folder, a relative path begins in that folder.
    """
    # Opening a device may have an effect, such as rewinding a tape.
    if follow and not stat.S_ISREG(os.stat(path, dir_fd=dir_fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    file = FileIO(os.open(path, FLAGS if follow else FLAGS | NO_LINK, dir_fd=dir_fd), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))


def read_regular(path: Union[str, os.PathLike[str]], limit: int, *, follow: bool = False) -> bytes:
    """Return the content of a regular file. Raises OSError like `open_regular`, or for more than `limit` bytes."""
    with open_regular(path, follow=follow) as file:
        data = b""
        while len(data) <= limit and (more := file.read(limit + 1 - len(data))):
            data += more
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", os.fspath(path))
    return data
