"""Minimal container engines, whose containers are processes on this machine, and a host that uses them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from remote.link.address import Address
from remote.link.container import Container
from remote.link.reach import open_host
from tests.lab.payload import install_payload

# Minimal container engines: their state is a folder, and their commands run on this machine.
RECORD = """#!/bin/sh
state=$(dirname "$0")/state
mkdir -p "$state"
printf '%s\\n' "$(echo "$*" | tr '\\n' ' ')" >> "$state/calls"
verb=$1
shift
"""
ENGINE = (
    RECORD
    + """
case $verb in
  --version) basename "$0" ;;
  inspect)
    [ -f "$state/$3" ] || exit 1
    case $2 in *Labels*) cat "$state/$3" ;; *) cut -d" " -f1 "$state/$3" ;; esac
    ;;
  image) cat "$state/image" 2>/dev/null ;;
  pull)
    [ "$2" = broken ] && { echo "no such image" >&2; exit 1; }
    echo "sha256:1d $2@sha256:d1" > "$state/image"
    ;;
  run)
    [ -f "$state/refused" ] && { cat "$state/refused" >&2; exit 125; }
    while [ "$1" != --name ]; do shift; done
    echo "true sha256:1d ${4#*=}" > "$state/$2"
    ;;
  start) sed -i s/false/true/ "$state/$1" ;;
  rm) rm -f "$state/$2" ;;
  info) cat "$state/info" 2>/dev/null ;;
  version) [ ! -f "$state/down" ] || { cat "$state/down" >&2; exit 1; } ;;
  exec) shift 2; export "$1"; shift 2; exec "$@" ;;
esac
"""
)
APPTAINER = (
    RECORD
    + """
case $verb in
  instance)
    case $1 in
      list) [ ! -f "$state/$2" ] || echo "$2  4711  -  image.sif" ;;
      start) while [ $# -gt 1 ]; do shift; done; touch "$state/$1" ;;
    esac
    ;;
  pull) echo an image > "$2" ;;
  exec) export "${5#*,}"; shift 6; exec "$@" ;;
esac
"""
)
PROGRAMS = "sh cat sed cut id mkdir sleep tr grep sha256sum basename dirname touch mv rm stat readlink getent env"


def tools(folder: Path) -> Path:
    """Return a folder for PATH without this machine's own engines and cards."""
    found = folder / "tools"
    if not found.exists():
        found.mkdir()
        for name in PROGRAMS.split():
            (found / name).symlink_to(Path(shutil.which(name) or "/missing").resolve())
        (found / "python3").symlink_to(Path(sys.executable).resolve())
    return found


def write_engine(folder: Path, kind: str) -> Path:
    path = folder / "bin" / kind
    path.parent.mkdir(exist_ok=True)
    path.write_text(APPTAINER if kind == "apptainer" else ENGINE)
    path.chmod(0o755)
    (path.parent / "state").mkdir(exist_ok=True)
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    return write_engine(tmp_path, "docker")


def state(engine: Path, name: str) -> Path:
    return engine.parent / "state" / name


def calls(engine: Path) -> list[str]:
    return state(engine, "calls").read_text().splitlines()


def verbs(engine: Path) -> list[str]:
    return [call.split()[0] for call in calls(engine)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder on the host, which is this machine with the engines in `bin`. The host was used before."""
    home = tmp_path / "home"
    home.mkdir()
    install_payload(home / "halfstep", byte_code=False).chmod(0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{tools(tmp_path)}")
    return home


def titan(container: Container, workdir: str = "~/halfstep") -> Address:
    return Address("titan", "local", container=container, workdir=workdir)


def the_call(engine: Path, verb: str) -> str:
    (call,) = [call for call in calls(engine) if call.startswith(f"{verb} ")]
    return call


def name_of(container: Container) -> str:
    return f"{container.name('~/halfstep')}-{os.getuid()}"


def enter(address: Address) -> None:
    """Start an agent in the container."""
    host = open_host(address)
    assert host.greeting
    host.close()


def become_another_user(folder: Path) -> None:
    """Let `id -u` print 4242."""
    program = tools(folder) / "id"
    program.unlink()
    real = shutil.which("id", path="/usr/bin:/bin")
    program.write_text(f'#!/bin/sh\n[ "$*" = -u ] && echo 4242 || exec {real} "$@"\n')
    program.chmod(0o755)
