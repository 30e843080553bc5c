"""Processes in a container on a host: one long-lived container per image and workdir."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from remote.link.streams import ProcessStream, Starter

# argv: image, the container's name, workdir, then the command. The container outlives connections, because jobs do.
# The home folder is mounted under its own path, so that caches, tokens and environments are found.
# A pull prints a dot every few seconds: a connection that is silent for long is closed.
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
  output=$("$engine" start "$name" 2>&1) || fail "$output"
elif ! running true; then
  output=$("$engine" version 2>&1 >/dev/null) || fail "$output"
  if ! "$engine" image inspect "$image" >/dev/null 2>&1; then
    while sleep 5 >/dev/null 2>&1; do echo .; done &
    dots=$!
    output=$("$engine" pull -q "$image" 2>&1) || { kill $dots; fail "$output"; }
    kill $dots
  fi
  (umask 077 && mkdir -p "$work")
  gpus=
  nvidia-smi -L >/dev/null 2>&1 && gpus="--gpus all"
  output=$("$engine" run -d --init --name "$name" --user "$(id -u):$(id -g)" --ipc=host $gpus \\
    -e HOME="$HOME" -v "$HOME:$HOME" -v "$work:$work" --entrypoint /bin/sh \\
    "$image" -c "trap exit TERM; while :; do sleep 3600 & wait; done" 2>&1) || running true || fail "$output"
fi
exec "$engine" exec -i -e HOME="$HOME" "$name" "$@"
"""
NO_CONTAINER = "no container:"


def why_no_container(stderr: str) -> str:
    """Return the line of `stderr` that says why there is no container; empty if there is none."""
    return next((line for line in stderr.splitlines() if line.startswith(NO_CONTAINER)), "")


class ContainerStarter:
    """Starts processes in a container of `image`, which is created if needed, on the machine of `outside`."""

    def __init__(self, outside: Starter, image: str, workdir: str) -> None:
        self._outside = outside
        self._image = image
        self._workdir = workdir

    @property
    def name(self) -> str:
        """The container's name on the host, a function of image and workdir."""
        identity = f"{self._image}\0{self._workdir}".encode("utf-8", "surrogateescape")
        return f"halfstep-{hashlib.sha256(identity).hexdigest()[:12]}"

    def start(self, argv: Sequence[str]) -> ProcessStream:
        return self._outside.start(("/bin/sh", "-c", ENTER, "sh", self._image, self.name, self._workdir, *argv))

    def describe(self) -> tuple[tuple[str, str], ...]:
        return (*self._outside.describe(), ("container", f"{self.name} from {self._image}"))

    def warnings(self) -> tuple[str, ...]:
        return self._outside.warnings()

    def close(self) -> None:
        """Close the connection; the container and the processes in it keep running."""
        self._outside.close()
