"""The Python that runs the agent: old, broken, missing, or the next one."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import HostUnfit
from remote.link.bootstrap import BootstrapRequest, bootstrap_argv
from remote.link.bundle import payload_bundle
from remote.link.local import local_host
from remote.link.reach import open_host
from remote.link.streams import LocalProcessStream
from remote.protocol.exits import ExitCode
from remote.protocol.frames import hello
from tests.lab.mounts import why_no_mounts
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]


def hide_pythons() -> tuple[str, ...]:
    """Return a command prefix that hides the system's Pythons."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    found = {path.resolve() for place in ("/usr/bin", "/usr/local/bin") for path in Path(place).glob("python3*")}
    found |= {
        Path(path).resolve() for name in ("python3", "python") if (path := shutil.which(name, path="/usr/bin:/bin"))
    }
    script = "".join(f"mount --bind /dev/null {path} && " for path in sorted(found) if path.is_file())
    return ("unshare", "-m", "sh", "-c", f'{script}exec "$@"', "sh")


def pretend_version(path: Path, version: tuple[int, int, int]) -> None:
    """A python3 that reports another version."""
    path.write_text(
        f"#!{sys.executable} -S\nimport sys\n"
        f"sys.version_info = {(*version, 'final', 0)!r}\n"
        "code = sys.argv[sys.argv.index('-c') + 1]\n"
        "sys.argv = ['-c', *sys.argv[sys.argv.index('-c') + 2:]]\n"
        "exec(code)\n"
    )
    path.chmod(0o755)


def unfit(server: Sshd) -> HostUnfit:
    host = open_host(server.address())
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    return caught.value


@pytest.mark.root
def test_BI_41_no_python_lists_what_was_tried(start_sshd: StartSshd) -> None:
    error = unfit(start_sshd(prefix=hide_pythons(), environment={"PATH": "/usr/bin:/bin"}))
    assert "no Python on titan" in error.message
    for name in ("python3", "python3.9", "/usr/bin/python3", "/opt/conda/bin/python3"):
        assert name in error.message
    assert "install Python 3.9" in error.hint


@pytest.mark.root
def test_BI_42_python_36_is_reported_as_found_and_too_old(start_sshd: StartSshd, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pretend_version(tmp_path / "bin/python3", (3, 6, 15))
    error = unfit(start_sshd(prefix=hide_pythons(), environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}))
    assert "found 3.6.15" in error.message
    assert "need >= 3.9" in error.message


def test_BI_42_a_newer_python_later_on_the_path_is_used(start_sshd: StartSshd, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    pretend_version(tmp_path / "bin/python3", (3, 6, 15))
    (tmp_path / "bin/python3.12").symlink_to(sys.executable)
    server = start_sshd(environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"})
    host = open_host(server.address())
    assert host.probe(["true"]).ok
    assert tuple(host.greeting["python"][:2]) >= (3, 9)
    host.close()


def other_interpreters() -> list[Path]:
    """Return Pythons of a version manager other than the one that runs the tests."""
    return sorted(Path(sys.base_prefix).parent.glob("[23].*/bin/python3"))


@pytest.mark.parametrize("python", other_interpreters(), ids=lambda path: path.parent.parent.name)
def test_BI_42_the_bootstrap_runs_under_old_and_new_pythons(python: Path, tmp_path: Path) -> None:
    answer = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 9))"], capture_output=True, text=True, check=False
    )
    request = BootstrapRequest("0123", payload_bundle().sha256, keep=True, workdir=str(tmp_path))
    stream = LocalProcessStream(bootstrap_argv(request, str(python)))
    output = b""
    while not output.endswith(b"\n") or output == hello("0123"):
        output += stream.read_some(1000, 20.0)
    stream.close()
    if answer.stdout.strip() == "True":
        assert output == hello("0123") + b"NEED\n"
        host = local_host(str(tmp_path))
        host._agent_starter.python = str(python)
        assert host.probe(["true"]).ok
        host.close()
    else:
        assert b"OLD 3." in output


@pytest.mark.root
@pytest.mark.parametrize("broken", ["link", "interpreter", "arch"])
def test_BI_43_a_python_that_does_not_run_is_reported_as_a_bad_interpreter(
    start_sshd: StartSshd, tmp_path: Path, broken: str
) -> None:
    (tmp_path / "bin").mkdir()
    break_python(tmp_path / "bin/python3", broken)
    error = unfit(start_sshd(prefix=hide_pythons(), environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}))
    assert "bad interpreter" in error.message
    assert str(tmp_path / "bin/python3") in error.message


@pytest.mark.parametrize("broken", ["link", "interpreter", "arch"])
def test_BI_43_a_python_that_does_not_run_is_passed_over(start_sshd: StartSshd, tmp_path: Path, broken: str) -> None:
    (tmp_path / "bin").mkdir()
    break_python(tmp_path / "bin/python3", broken)
    (tmp_path / "bin/python3.11").symlink_to(sys.executable)
    host = open_host(start_sshd(environment={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}).address())
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


def break_python(path: Path, how: str) -> None:
    if how == "link":
        path.symlink_to("/nowhere/python3.11")
        return
    # An ELF header for a machine that does not exist.
    path.write_bytes(
        b"#!/nowhere/python\n"
        if how == "interpreter"
        else b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xff\xee" + bytes(44)
    )
    path.chmod(0o755)


@pytest.mark.parametrize("python", ["", "/opt/conda/envs/speech/bin/python3"])
def test_the_command_that_starts_the_agent_is_short_enough_for_dropbear(python: str) -> None:
    request = BootstrapRequest("0" * 16, "0" * 64, True, workdir="~/" + "w" * 200, first=b"x" * 1024)
    assert len(shlex.join(bootstrap_argv(request, python))) < 9000
