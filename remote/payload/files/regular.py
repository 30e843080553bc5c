"""Read files that somebody else may have created: only regular files, and only up to a limit."""

from __future__ import annotations

import errno
import os
import stat


def read_regular(path: str, limit_bytes: int) -> bytes:
    """Return the file's content. Raises OSError for a device, a FIFO or a folder, and for a file above the limit."""
    # Without O_NONBLOCK, the kernel would wait for the writer of a FIFO.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"larger than {limit_bytes} bytes", path)
    return data
