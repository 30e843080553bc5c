"""Processes inside a container of a host: one long-lived container per image and workdir, entered once per agent."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from remote.link.wire import Starter, Wire

# argv: image, the container's name, workdir, then the command. The container outlives every connection, because jobs
# do. The home is there under its own path, so that caches, tokens and environments are found where they were left.
# A pull says a dot now and then: what is silent for long is taken for dead.
ENTER = """
image=$1 name=$2 work=$3
shift 3
fail() { set -f; echo "no container:" $1 >&2; exit 126; }
engine=$(command -v docker || command -v podman) || fail "no docker or podman on PATH ($PATH)"
case $work in
  "~" | "~/"*) work=$HOME${work#"~"} ;;
  /*) ;;
  *) work=$HOME/$work ;;
esac
running() { [ "$("$engine" inspect -f "{{.State.Running}}" "$name" 2>/dev/null)" = "$1" ]; }
if running false; then
  said=$("$engine" start "$name" 2>&1) || fail "$said"
elif ! running true; then
  said=$("$engine" version 2>&1 >/dev/null) || fail "$said"
  if ! "$engine" image inspect "$image" >/dev/null 2>&1; then
    while sleep 5 >/dev/null 2>&1; do echo .; done &
    dots=$!
    said=$("$engine" pull -q "$image" 2>&1) || { kill $dots; fail "$said"; }
    kill $dots
  fi
  (umask 077 && mkdir -p "$work")
  gpus=
  nvidia-smi -L >/dev/null 2>&1 && gpus="--gpus all"
  said=$("$engine" run -d --init --name "$name" --user "$(id -u):$(id -g)" --ipc=host $gpus \\
    -e HOME="$HOME" -v "$HOME:$HOME" -v "$work:$work" --entrypoint /bin/sh \\
    "$image" -c "trap exit TERM; while :; do sleep 3600 & wait; done" 2>&1) || running true || fail "$said"
fi
exec "$engine" exec -i -e HOME="$HOME" "$name" "$@"
"""
NO_CONTAINER = "no container:"


def why_no_container(words: str) -> str:
    """What kept an engine from giving us a container, out of the last words of what should have entered it."""
    return next((line for line in words.splitlines() if line.startswith(NO_CONTAINER)), "")


class ContainerStarter:
    """Starts inside `image` on the machine that `outside` starts on; makes the container where it is not there yet."""

    def __init__(self, outside: Starter, image: str, workdir: str) -> None:
        self._outside = outside
        self._image = image
        self._workdir = workdir

    @property
    def name(self) -> str:
        """The container's name on the host: the same image and workdir are always the same container."""
        identity = f"{self._image}\0{self._workdir}".encode("utf-8", "surrogateescape")
        return f"halfstep-{hashlib.sha256(identity).hexdigest()[:12]}"

    def start(self, argv: Sequence[str]) -> Wire:
        return self._outside.start(("/bin/sh", "-c", ENTER, "sh", self._image, self.name, self._workdir, *argv))

    def describe(self) -> tuple[tuple[str, str], ...]:
        return (*self._outside.describe(), ("container", f"{self.name} from {self._image}"))

    def warnings(self) -> tuple[str, ...]:
        return self._outside.warnings()

    def close(self) -> None:
        """The container stays: what was started in it goes on."""
        self._outside.close()
