"""The verdict on a presented key for a name, given the lines of known_hosts."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest

from remote.errors import HostKeyRefused
from remote.link.ssh.host_keys import add_known_host, is_known_host, read_known_hosts
from remote.link.ssh.known_hosts import HostKey, Trust, judge_host_key, parse_known_hosts
from remote.link.ssh.login import LoginStrategy
from remote.link.ssh.route import MAX_KNOWN_HOSTS, ResolvedHop


def key(seed: int, kind: str = "ssh-ed25519") -> HostKey:
    name = kind.encode()
    return HostKey(kind, len(name).to_bytes(4, "big") + name + (32).to_bytes(4, "big") + bytes([seed]) * 32)


def line(names: str, which: HostKey, marker: str = "") -> str:
    return f"{marker + ' ' if marker else ''}{names} {which.key_type} {base64.b64encode(which.blob).decode()} comment\n"


ONE, TWO, RSA = key(1), key(2), key(3, "ssh-rsa")


@pytest.mark.parametrize(
    ("text", "name", "shown", "trust"),
    [
        (line("titan", ONE), "titan", ONE, Trust.TRUSTED),
        (line("titan", ONE), "Titan", ONE, Trust.TRUSTED),
        (line("titan", ONE), "titan", TWO, Trust.CHANGED),
        (line("titan", ONE), "other", ONE, Trust.UNKNOWN),
        ("", "titan", ONE, Trust.UNKNOWN),
        (line("titan", ONE) + line("titan", TWO), "titan", TWO, Trust.TRUSTED),
        (line("a,titan,b", ONE), "titan", ONE, Trust.TRUSTED),
        (line("*.lab", ONE), "titan.lab", ONE, Trust.TRUSTED),
        (line("*.lab,!titan.lab", ONE), "titan.lab", ONE, Trust.UNKNOWN),
        (line("tit?n", ONE), "titan", ONE, Trust.TRUSTED),
        (line("[titan]:2222", ONE), "[titan]:2222", ONE, Trust.TRUSTED),
        (line("[titan]:2222", ONE), "titan", ONE, Trust.UNKNOWN),
        # ssh accepts a key that is recorded for the name only; a different key for the address is ignored.
        (line("titan", ONE), "[titan]:2222", ONE, Trust.TRUSTED),
        (line("titan", ONE), "[titan]:2222", TWO, Trust.UNKNOWN),
        # BI-33: only another type is known.
        (line("titan", RSA), "titan", ONE, Trust.CHANGED),
        (line("titan", ONE, "@revoked"), "titan", ONE, Trust.REVOKED),
        (line("titan", ONE) + line("*", ONE, "@revoked"), "titan", ONE, Trust.REVOKED),
        (line("titan", ONE, "@revoked") + line("titan", TWO), "titan", TWO, Trust.TRUSTED),
        (line("titan", ONE, "@revoked"), "titan", TWO, Trust.UNKNOWN),
        (line("titan", ONE, "@cert-authority"), "titan", TWO, Trust.UNKNOWN),
        (line("titan", ONE, "@cert-authority"), "titan", ONE, Trust.UNKNOWN),
        (line("titan", ONE, "@cert-authority") + line("titan", TWO), "titan", TWO, Trust.TRUSTED),
        ("# titan " + line("x", ONE), "titan", ONE, Trust.UNKNOWN),
    ],
)
def test_BI_34_a_presented_key_is_judged_as_listed(text: str, name: str, shown: HostKey, trust: Trust) -> None:
    entries, complaints = parse_known_hosts(text, "known_hosts")
    assert judge_host_key(entries, name, shown).trust is trust
    assert complaints == ()


@pytest.mark.parametrize(
    "bad",
    ["titan\n", "titan ssh-ed25519\n", "titan ssh-ed25519 !!!\n", "titan ssh-rsa AAAA\n", "@odd " + line("titan", ONE)],
)
def test_BI_34_a_malformed_line_is_reported_and_the_others_are_used(bad: str) -> None:
    entries, complaints = parse_known_hosts(line("other", TWO) + bad + line("titan", ONE), "file")
    assert judge_host_key(entries, "titan", ONE).trust is Trust.TRUSTED
    assert len(complaints) == 1
    assert complaints[0].startswith("file:2 ")


NO_LINE_ENDS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
"""The characters besides a line feed at which `str.splitlines` splits."""


@pytest.mark.parametrize("char", NO_LINE_ENDS)
def test_SE_only_a_line_feed_ends_a_line_of_known_hosts(tmp_path: Path, char: str) -> None:
    banner = f"# titan:22 SSH-2.0-banner {char}"
    path = tmp_path / "known_hosts"
    path.write_bytes(f"{banner}{line('*', TWO)}{line('titan', ONE)}{banner}@revoked {line('*', ONE)}".encode())
    known = read_known_hosts(ResolvedHop("titan", "titan", 22, "me", known_hosts=(str(path),)), tmp_path / "own")
    assert [(entry.names, entry.where) for entry in known.entries] == [("titan", f"{path}:2")]
    assert judge_host_key(known.entries, "titan", ONE).trust is Trust.TRUSTED
    found = subprocess.run(["ssh-keygen", "-F", "other", "-f", path], capture_output=True, check=False)
    assert found.returncode == 1, "ssh finds no entry for another name either"


@pytest.mark.parametrize("char", [*NO_LINE_ENDS, "\x1f", "\xa0", "\u3000"])
def test_SE_only_spaces_and_tabs_separate_the_fields_of_known_hosts(char: str) -> None:
    entries, complaints = parse_known_hosts(line("titan", ONE).replace(" ", char), "file")
    assert (entries, len(complaints)) == ((), 1)


def test_a_known_hosts_file_with_tabs_and_line_ends_of_windows_is_read() -> None:
    text = " \t" + line("titan", ONE).replace(" ", "\t").replace("\n", "\r\n") + "\r\n"
    entries, complaints = parse_known_hosts(text.replace("\tcomment", ""), "file")
    assert ([entry.names for entry in entries], complaints) == (["titan"], ())


@pytest.mark.parametrize("name", ["titan", "[127.0.0.1]:2222"])
def test_BI_34_names_hashed_by_ssh_keygen_are_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line(name, ONE))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
    text = path.read_text()
    assert text.startswith("|1|")
    entries, _ = parse_known_hosts(text, str(path))
    assert judge_host_key(entries, name, ONE).trust is Trust.TRUSTED
    assert judge_host_key(entries, name, TWO).trust is Trust.CHANGED
    assert judge_host_key(entries, "elsewhere", ONE).trust is Trust.UNKNOWN


def test_a_pinned_fingerprint_decides_alone() -> None:
    entries, _ = parse_known_hosts(line("titan", ONE), "file")
    assert judge_host_key(entries, "titan", ONE, pinned=TWO.fingerprint).trust is Trust.CHANGED
    assert judge_host_key((), "titan", ONE, pinned=ONE.fingerprint).trust is Trust.TRUSTED


def test_a_revoked_key_is_refused_even_if_it_is_pinned() -> None:
    entries, _ = parse_known_hosts(line("titan", ONE, "@revoked"), "file")
    assert judge_host_key(entries, "titan", ONE, pinned=ONE.fingerprint).trust is Trust.REVOKED


def test_the_fingerprint_is_the_one_ssh_keygen_prints(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True)
    kind, encoded, _ = (tmp_path / "k.pub").read_text().split(maxsplit=2)
    output = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "k.pub"], capture_output=True, text=True, check=True
    ).stdout
    assert HostKey(kind, base64.b64decode(encoded)).fingerprint in output.split()


def test_a_known_host_is_added_once_to_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    own = tmp_path / "config" / "halfstep" / "known_hosts"
    for _ in range(3):
        add_known_host(own, "titan", ONE)
    add_known_host(own, "[titan]:22022", TWO)
    assert own.read_text().count("\n") == 2
    assert own.stat().st_mode & 0o777 == 0o600
    entries, complaints = parse_known_hosts(own.read_text(), str(own))
    assert judge_host_key(entries, "[titan]:22022", TWO).trust is Trust.TRUSTED
    assert complaints == ()


def test_a_known_host_is_added_on_a_new_line_after_a_line_without_an_end(tmp_path: Path) -> None:
    own = tmp_path / "known_hosts"
    own.write_text(line("a", ONE).rstrip("\n"))
    add_known_host(own, "b", TWO)
    entries, complaints = parse_known_hosts(own.read_text(), "own")
    assert [entry.names for entry in entries] == ["a", "b"]
    assert complaints == ()


@pytest.mark.parametrize("planted", ["link", "link to nothing", "folder", "fifo"])
def test_a_known_host_is_added_to_a_regular_file_only(tmp_path: Path, planted: str) -> None:
    own, victim = tmp_path / "known_hosts", tmp_path / "victim"
    if planted.startswith("link"):
        own.symlink_to(victim)
        if planted == "link":
            victim.write_text("mine")
    elif planted == "folder":
        own.mkdir()
    else:
        os.mkfifo(own)
    with pytest.raises(HostKeyRefused, match="cannot be written"):
        add_known_host(own, "titan", ONE)
    assert victim.exists() == (planted == "link") and (planted != "link" or victim.read_text() == "mine")


@pytest.mark.parametrize("planted", ["/dev/zero", "fifo", "large"])
def test_a_known_hosts_file_without_an_end_is_refused_and_not_read(tmp_path: Path, planted: str) -> None:
    path = tmp_path / "known"
    if planted == "fifo":
        os.mkfifo(path)
    elif planted == "large":
        with path.open("wb") as file:
            file.truncate(MAX_KNOWN_HOSTS + 1)
    else:
        path.symlink_to(planted)
    hop = ResolvedHop("titan", "10.0.0.1", known_hosts=(str(path),), key_name="titan")
    with pytest.raises(HostKeyRefused, match="no host key can be verified"):
        read_known_hosts(hop, tmp_path / "own")
    path.unlink()
    path.write_text(line("titan", ONE))
    assert read_known_hosts(hop, tmp_path / "own").key_types(hop)


@pytest.mark.parametrize("name", ["/dev/zero", "key"])
def test_a_key_file_without_an_end_is_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "key":
        path.write_text("no key")
        path.chmod(0o600)
        path.with_suffix(".pub").symlink_to("/dev/zero")
    strategy = LoginStrategy(ResolvedHop("titan", "10.0.0.1", identity_files=(str(path),), user="me"), None)
    assert list(strategy._candidates(None)) == []
    assert str(path) in strategy.tried[0] and "not a private key" in strategy.tried[0]


@pytest.mark.parametrize(
    ("names", "marker", "known"),
    [
        ("[titan]:2222", "", True),
        ("[tit*]:22?2", "", True),
        ("[t?tan]:*", "", True),
        ("[tit*]:22a", "", False),
        ("[!titan]:*", "", False),
        ("titan", "@cert-authority", True),
        ("tit*", "@cert-authority", True),
        ("*", "@cert-authority", False),
        ("other", "@cert-authority", False),
    ],
)
def test_SE_a_machine_is_known_by_every_line_that_names_it(
    tmp_path: Path, names: str, marker: str, known: bool
) -> None:
    (tmp_path / "known_hosts").write_text(line(names, ONE, marker))
    assert is_known_host(tmp_path / "known_hosts", "titan") is known
