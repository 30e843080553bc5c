"""Find the FFmpeg releases that have their shared libraries installed on this host."""

from __future__ import annotations

import os
import re
import subprocess
from glob import glob
from itertools import islice
from typing import Any, Dict, Iterable, Iterator, Set, Tuple

from remote.payload.probes.project_python import job_environment
from remote.payload.request.call import Call
from remote.protocol.audio import AudioFacts
from remote.protocol.values import encode

RELEASE_OF_AVUTIL = {56: 4, 57: 5, 58: 6, 59: 7, 60: 8}
"""The major version of FFmpeg for each major version of libavutil, from FFmpeg's APIchanges file."""
SONAME = re.compile(r"libavutil\.so\.(\d+)|libavutil\.(\d+)\.dylib")
LIBRARY = "libavutil"
MOST_FOLDERS = 500
FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/opt/homebrew/lib")


def look_at_audio(call: Call) -> Dict[str, Any]:
    """Return the `AudioFacts` of this host."""
    environment = job_environment(call.args.get("environment", {}))
    majors: Set[int] = set()
    for text in _library_listings(environment.get("LD_LIBRARY_PATH", ""), call.args.get("prefix", "")):
        for match in SONAME.finditer(text):
            majors.add(int(match[1] or match[2]))
    releases = sorted(RELEASE_OF_AVUTIL[major] for major in majors if major in RELEASE_OF_AVUTIL)
    answer: Dict[str, Any] = encode(AudioFacts(tuple(releases)))
    return answer


def _library_listings(search_path: str, prefix: str) -> Iterator[str]:
    """Yield the content of the loader's cache, and the libavutil files in the library folders."""
    try:
        done = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, timeout=10, check=False)
        yield done.stdout.decode("utf-8", "replace")
    except (OSError, subprocess.TimeoutExpired):
        pass
    own = [*FOLDERS, *glob("/usr/lib/*-linux-gnu"), os.path.join(prefix, "lib") if prefix else ""]
    yield from _names_in([*own, *search_path.split(os.pathsep)])


def _names_in(folders: Iterable[str]) -> Iterator[str]:
    """Yield the names of the libavutil files in these folders. Each folder is listed once, under any name.

    The folders of a config are not patterns, because a pattern such as `/*/*/*/*` could take minutes.
    """
    listed: Set[Tuple[int, int]] = set()
    for folder in islice(dict.fromkeys(filter(None, folders)), MOST_FOLDERS):
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in listed:
                continue
            listed.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                yield from (entry.name for entry in entries if entry.name.startswith(LIBRARY))
        except (OSError, ValueError):
            continue
