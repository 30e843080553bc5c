"""Search a host for a Python that can run the agent, if the first Python on PATH cannot run the agent."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from remote.errors import ConnectionLost, DeadlineExceeded, HostUnfit
from remote.link.bootstrap import PYTHON_FOLDERS, PYTHONS
from remote.link.frame_reader import FrameReader
from remote.link.streams import Starter
from remote.protocol.dataclass import dataclass
from remote.protocol.frames import hello
from remote.protocol.hidden import message_lines
from remote.protocol.text import file_lines, whole_number

NEEDED = (3, 9)
SEARCH_TIMEOUT_S = 30.0
SEARCH_LIMIT_S = 300.0
LOCKED = "check whether the account is locked, has the shell nologin, or has a key that is bound to another command"
NEEDS_TERMINAL = "this gateway runs no commands; use the machine's own address (RunPod: SSH over exposed TCP)"
MAX_ROWS = 1000
EXTRA = ("$HOME/miniconda3/bin", "$HOME/anaconda3/bin", "$HOME/miniforge3/bin", "$HOME/.local/bin", "$HOME/venv/bin")

# The arguments are the nonce and the interpreter of the host file, or "". The script prints the mark, then for each
# candidate its name, its path, and its version or error output. A broken link is printed too, because `command -v`
# skips it without a message.
SEARCH = f"""
printf '\\002HS%s\\003\\n' "$1"
try() {{
  version=$("$2" -E -S -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1) || version="fails: $version"
  printf '%s\\t%s\\t%s\\n' "$1" "$2" "$(printf %s "$version" | tr '\\n\\t' '  ')"
}}
case $2 in
  "~/"*) try "$2" "$HOME/${{2#"~/"}}" ;;
  ?*) try "$2" "$2" ;;
esac
for name in {" ".join(PYTHONS)}; do
  found=$(command -v "$name") && try "$name" "$found"
  IFS=:
  for folder in $PATH; do
    if [ -L "$folder/$name" ] && [ ! -e "$folder/$name" ]; then
      printf '%s\\t%s\\tbroken link\\n' "$name" "$folder/$name"
    fi
  done
  unset IFS
done
for folder in {" ".join(f'"{path}"' for path in (*PYTHON_FOLDERS, *EXTRA))}; do
  [ -x "$folder/python3" ] && try "$folder/python3" "$folder/python3"
done
echo end
"""


@dataclass(frozen=True)
class Candidate:
    """One Python of the host. If it does not run, `version` is () and `output` is its error output."""

    name: str
    path: str
    version: tuple[int, ...]
    output: str


def parse_candidates(text: str) -> tuple[Candidate, ...]:
    """Parse the output of the search. Keeps the first candidate of each path, in order."""
    rows: dict[str, Candidate] = {}
    for line in file_lines(text):
        name, tab, path_and_output = line.partition("\t")
        path, _, output = path_and_output.partition("\t")
        if not tab:
            continue
        numbers = [number for part in output.split(".") if (number := whole_number(part)) is not None]
        version = tuple(numbers) if len(numbers) == 3 and output.count(".") == 2 else ()
        rows.setdefault(path, Candidate(name, path, version, message_lines(output)))
    return tuple(rows.values())


def choose_python(candidates: tuple[Candidate, ...]) -> Candidate | None:
    """Return the first candidate with a version that the agent supports, or None."""
    return next((candidate for candidate in candidates if candidate.version >= NEEDED), None)


def find_python(
    starter: Starter,
    host: str,
    output: str,
    configured: str = "",
    image: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Return the absolute path of a Python that can run the agent.

    Raises HostUnfit with the candidates that were tried. `configured` is the interpreter of the host file if its path
    is absolute, otherwise ""; it is tried first. `output` is the text that arrived instead of an agent's greeting; the
    error quotes this text if the host runs no commands at all. `image` is the image of the container, or "" if the host
    has none.
    """
    candidates = parse_candidates(_search(starter, host, output, configured, clock))
    chosen = choose_python(candidates)
    if chosen is not None:
        return chosen.path
    needed = ".".join(map(str, NEEDED))
    location = f"{host} in {image}" if image else host
    hint = f"install Python {needed} or newer on the host, for example: apt-get install -y python3"
    if image:
        hint = f"set `container:` to an image with Python {needed} or newer"
    if not candidates:
        tried = ", ".join((*PYTHONS, *(f"{location}/python3" for location in PYTHON_FOLDERS)))
        raise HostUnfit(
            f"no Python on {location}; tried {tried}",
            where=host,
            hint=hint,
        )
    results = "; ".join(
        f"{c.path}: {'found ' + '.'.join(map(str, c.version)) if c.version else c.output}" for c in candidates
    )
    bad = "bad interpreter: " if not any(c.version for c in candidates) else ""
    raise HostUnfit(
        f"{bad}no Python on {location} can run the agent, need >= {needed}; tried {results}",
        where=host,
        hint=hint,
    )


def _search(starter: Starter, host: str, output: str, configured: str, clock: Callable[[], float]) -> str:
    nonce = secrets.token_hex(8)
    stream = starter.start(("/bin/sh", "-c", SEARCH, "sh", nonce, configured))
    reader = FrameReader(stream, clock)
    rows: list[str] = []
    deadline = reader.clock() + SEARCH_LIMIT_S
    try:
        reader.skip_until(hello(nonce), SEARCH_TIMEOUT_S, deadline)
        while (row := reader.read_line(SEARCH_TIMEOUT_S).decode("utf-8", "replace")) != "end\n":
            if reader.clock() > deadline:
                raise DeadlineExceeded(f"the search for a Python on {host} takes too long", where=host)
            rows.append(row)
            if len(rows) > MAX_ROWS:
                raise HostUnfit(f"the search for a Python on {host} prints more than {MAX_ROWS} lines", where=host)
    except (ConnectionLost, DeadlineExceeded):
        reason = reader.first_line() or message_lines(stream.stderr_text()).strip() or output
        if not rows:
            raise HostUnfit(
                f"no command runs on {host}" + (f": it prints {reason!r}" if reason else ", without any output"),
                where=host,
                hint=NEEDS_TERMINAL if "PTY" in reason else LOCKED,
            ) from None
    finally:
        stream.close()
    return "".join(rows)
