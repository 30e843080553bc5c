"""known_hosts files are found in every folder, also if `ssh -G` prints their paths on one line without quotes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from remote.errors import BadUsage
from remote.link.address import Address
from remote.link.ssh.config_words import split_paths, ssh_words
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import ResolvedHop
from tests.lab.sshd import Sshd, make_key
from tests.remote.link.ssh.refused_keys import attempts, refused

NAMES = ["John Smith", "a  b", "DOM\\jo", "O'Neil", 'the "lab"', "tab\there", "x ~me", "#1"]
HOME = "/home/John Smith/.ssh"
OPENSSH = pytest.mark.parametrize("path", [os.environ["PATH"], "/nowhere"], ids=["ssh -G", "without OpenSSH"])


def quoted(path: Path) -> str:
    """Return a path as a word of ssh_config."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def target(home: Path, config: str, path: str, **settings: str) -> ResolvedHop:
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    (home / ".ssh/config").write_text(config)
    environment = {"HOME": str(home), "USER": "me", "PATH": path}
    return resolve_route(Address("titan", "titan", **settings), environment).target  # type: ignore[arg-type]


@OPENSSH
@pytest.mark.parametrize("name", NAMES)
def test_SE_every_file_of_a_list_is_read_whatever_its_folder_is_called(tmp_path: Path, name: str, path: str) -> None:
    files = [tmp_path / name / "known_hosts", tmp_path / name / "more", tmp_path / "plain"]
    listed = " ".join(map(quoted, files))
    config = f"Host *\n  UserKnownHostsFile ~/own {listed}\n  GlobalKnownHostsFile = {listed}\n"
    hop = target(tmp_path / name, config, path)
    own = next(one for one in hop.known_hosts if one.endswith("/own"))
    assert hop.known_hosts == (own, *map(str, files))


@pytest.mark.parametrize("home", ["/home/John Smith", "/home/DOM\\jo", "/home/O'Neil", "/home/ both", '/home/"x"'])
def test_SE_the_default_files_of_an_account_are_read_whatever_its_home_folder_is_called(
    tmp_path: Path, home: str
) -> None:
    line = f"userknownhostsfile {home}/.ssh/known_hosts {home}/.ssh/known_hosts2"
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(f"#!/bin/sh\nprintf '%s\\n' {shlex.quote(line)} {shlex.quote(f'revokedhostkeys {home}/revoked')}\n")
    ssh.chmod(0o755)
    hop = target(tmp_path, "", str(ssh.parent))
    assert hop.known_hosts[:2] == (f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2")
    assert hop.revoked_keys == (f"{home}/revoked",)


@pytest.mark.parametrize("marker", ["", "@revoked "])
def test_SE_a_changed_or_revoked_key_in_a_folder_with_a_space_is_refused_with_accept_new(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str
) -> None:
    key = make_key(tmp_path / "other") if not marker else sshd.host_key()
    kind, encoded = Path(f"{key}.pub").read_text().split()[:2]
    known = tmp_path / "my keys/known_hosts"
    known.parent.mkdir()
    known.write_text(f"{marker}[{sshd.listen}]:{sshd.port} {kind} {encoded}\n")
    config = tmp_path / "config"
    config.write_text(
        f'Host *\n  UserKnownHostsFile ~/.ssh/known_hosts "{known}"\n  StrictHostKeyChecking accept-new\n'
        + sshd.ssh_config()
    )
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    error = refused(sshd, host="titan", port=None, identity_file=None, known_hosts=None)
    assert ("revoked" if marker else str(known)) in error.message
    assert attempts(sshd) == []


def test_SE_files_of_the_working_folder_are_not_known_hosts_of_a_home_folder_with_a_space() -> None:
    read = split_paths(f"{HOME}/known_hosts {HOME}/known_hosts2", "UserKnownHostsFile", lambda path: False)
    assert read == (f"{HOME}/known_hosts", f"{HOME}/known_hosts2")


@pytest.mark.parametrize(
    ("text", "existing"),
    [
        ("/dev/null known", "known"),
        ("/home/me/known_hosts team", "/home/me/known_hosts"),
        ("/home/me /known_hosts", "/home/me /known_hosts"),
        (f"{HOME}/known_hosts", "Smith/.ssh/known_hosts"),
    ],
)
def test_SE_a_line_that_could_mean_another_existing_file_is_refused(text: str, existing: str) -> None:
    with pytest.raises(BadUsage, match="without quotes") as caught:
        split_paths(text, "UserKnownHostsFile", lambda path: path == existing)
    assert existing in caught.value.message and "absolute paths" in caught.value.hint


def test_SE_an_unclear_line_is_refused_before_the_connection(tmp_path: Path) -> None:
    (tmp_path / "known").write_text("")
    config = f"Host *\n  UserKnownHostsFile {tmp_path / 'known'} team\n"
    with pytest.raises(BadUsage, match="UserKnownHostsFile"):
        target(tmp_path, config, os.environ["PATH"])


@OPENSSH
def test_none_names_no_file_and_a_missing_option_names_the_default_files(tmp_path: Path, path: str) -> None:
    assert target(tmp_path, "Host *\n  UserKnownHostsFile none\n  GlobalKnownHostsFile none\n", path).known_hosts == ()
    names = [Path(file).name for file in target(tmp_path, "", path).known_hosts]
    assert names == ["known_hosts", "known_hosts2", "ssh_known_hosts", "ssh_known_hosts2"]


def test_without_openssh_a_path_with_a_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="tokens in UserKnownHostsFile"):
        target(tmp_path, "Host *\n  UserKnownHostsFile ~/.ssh/known/%k\n", "/nowhere")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"""a "b c" 'd "e' f\ g h\j""", ["a", "b c", 'd "e', "f g", r"h\j"]),
        (r""""a\"b" "c\ d" \\e \"f""", ['a"b', r"c\ d", r"\e", '"f']),
        ('"" a#b # c', ["", "a#b"]),
        ("\t a\t", ["a"]),
    ],
)
def test_words_are_quoted_by_the_rules_of_ssh(text: str, words: list[str]) -> None:
    assert ssh_words(text, comments=True) == words


@pytest.mark.parametrize("text", ['"a', "a 'b"])
def test_an_open_quote_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="quote"):
        ssh_words(text)
