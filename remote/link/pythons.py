"""Which Python of a host can run our agent: asked only when the first one that was found cannot."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from remote.errors import ConnectionLost, DeadlineExceeded, HostUnfit
from remote.link.bootstrap import PLACES, PYTHONS
from remote.link.line import Line
from remote.link.wire import Starter
from remote.protocol.frames import hello
from remote.protocol.text import safe_text

NEEDED = (3, 9)
SEARCH_TIMEOUT_S = 30.0
EXTRA = ("$HOME/miniconda3/bin", "$HOME/anaconda3/bin", "$HOME/miniforge3/bin", "$HOME/.local/bin", "$HOME/venv/bin")

# argv: the mark, and the interpreter that the host's file names, or nothing. Prints the mark, then per candidate: what
# it is called, where it is, and its version or what it said.
# A link that leads nowhere is told, since `command -v` passes over it in silence.
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
for folder in {" ".join(f'"{place}"' for place in (*PLACES, *EXTRA))}; do
  [ -x "$folder/python3" ] && try "$folder/python3" "$folder/python3"
done
echo end
"""


@dataclass(frozen=True)
class Candidate:
    """One Python as the host tells it; `version` is () and `words` say why where it does not run."""

    name: str
    path: str
    version: tuple[int, ...]
    words: str


def parse_candidates(text: str) -> tuple[Candidate, ...]:
    """The rows of the search, in its order, each path once."""
    rows: dict[str, Candidate] = {}
    for line in text.splitlines():
        name, tab, rest = line.partition("\t")
        path, _, words = rest.partition("\t")
        if not tab:
            continue
        parts = words.split(".")
        version = tuple(map(int, parts)) if len(parts) == 3 and all(part.isdigit() for part in parts) else ()
        rows.setdefault(path, Candidate(name, path, version, safe_text(words)))
    return tuple(rows.values())


def choose_python(candidates: tuple[Candidate, ...]) -> Candidate | None:
    """The first that is new enough, by the order people would type them in."""
    return next((candidate for candidate in candidates if candidate.version >= NEEDED), None)


def find_python(starter: Starter, host: str, said: str, named: str = "") -> str:
    """The absolute path of a Python that can run our agent. Raises HostUnfit with everything that was tried.

    `named` is the interpreter of the host's file where it is absolute: tried before any other. `said` is what came
    instead of an agent: where not even a shell runs, that is the reason.
    """
    candidates = parse_candidates(_search(starter, host, said, named))
    chosen = choose_python(candidates)
    if chosen is not None:
        return chosen.path
    needed = ".".join(map(str, NEEDED))
    if not candidates:
        tried = ", ".join((*PYTHONS, *(f"{place}/python3" for place in PLACES)))
        raise HostUnfit(
            f"no Python on {host}; tried {tried}",
            where=host,
            hint=f"install Python {needed} or newer there, for example: apt-get install -y python3",
        )
    told = "; ".join(
        f"{c.path}: {'found ' + '.'.join(map(str, c.version)) if c.version else c.words}" for c in candidates
    )
    bad = "bad interpreter: " if not any(c.version for c in candidates) else ""
    raise HostUnfit(
        f"{bad}no Python on {host} can run our agent, need >= {needed}; tried {told}",
        where=host,
        hint=f"install Python {needed} or newer there, for example: apt-get install -y python3",
    )


def _search(starter: Starter, host: str, said: str, named: str) -> str:
    nonce = secrets.token_hex(8)
    wire = starter.start(("/bin/sh", "-c", SEARCH, "sh", nonce, named))
    line = Line(wire)
    rows: list[str] = []
    try:
        line.skip_noise(hello(nonce), SEARCH_TIMEOUT_S)
        while (row := line.read_line(SEARCH_TIMEOUT_S).decode("utf-8", "replace")) != "end\n":
            rows.append(row)
    except (ConnectionLost, DeadlineExceeded):
        words = line.noise() or safe_text(wire.stderr_text()).strip() or said
        if not rows:
            raise HostUnfit(
                f"no command runs on {host}" + (f": it says {words!r}" if words else " (and it does not say why)"),
                where=host,
                hint="is the account locked, its shell nologin, or its key bound to another command?",
            ) from None
    finally:
        wire.close()
    return "".join(rows)
