"""Patterns of known_hosts: what they match, and that a file of a hundred thousand patterns is judged at once."""

from __future__ import annotations

import base64
import itertools
import subprocess
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from remote.errors import HostKeyRefused
from remote.link.address import Address
from remote.link.ssh.host_keys import read_known_hosts
from remote.link.ssh.host_patterns import matches_pattern
from remote.link.ssh.known_hosts import parse_known_hosts
from remote.link.ssh.resolve import resolve_route
from remote.link.ssh.route import MAX_PROJECT_KNOWN_HOSTS

KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + bytes(32)).decode()
SIZE = MAX_PROJECT_KNOWN_HOSTS
SOON_S = 3.0
"""Each file takes less than half a second. A compiled pattern took 70 us and more, that is 10 s for such a file."""


@pytest.mark.parametrize("length", range(5))
def test_a_pattern_matches_the_same_names_as_a_regular_expression(length: int) -> None:
    names = ["".join(letters) for size in range(5) for letters in itertools.product("ab", repeat=size)]
    for pattern in map("".join, itertools.product("ab*?", repeat=length)):
        assert [n for n in names if matches_pattern(n, pattern)] == [n for n in names if fnmatchcase(n, pattern)]


@pytest.mark.parametrize(
    ("names", "name", "matches"),
    [
        ("[*.lab]:22?2", "[titan.lab]:2222", True),
        ("[*.lab]:22?2", "[titan.lab]:2232", True),
        ("[titan]*", "t*", False),
        ("[ab]", "a", False),
        ("*.LAB,!TITAN.lab", "titan.lab", False),
        ("!titan.lab", "gpu.lab", False),
        ("?", "", False),
        ("*", "", True),
        ("g\u00e4st?", "g\u00e4st1", True),
    ],
)
def test_the_patterns_of_a_line_match_as_in_ssh(names: str, name: str, matches: bool, tmp_path: Path) -> None:
    text = f"{names} ssh-ed25519 {KEY}\n"
    (entry,), _ = parse_known_hosts(text, "file")
    assert entry.matches(name) is matches
    if name and "*" not in name:
        (tmp_path / "known").write_text(text)
        found = subprocess.run(["ssh-keygen", "-F", name, "-f", tmp_path / "known"], capture_output=True, check=False)
        assert (found.returncode == 0) is matches


@pytest.mark.parametrize(
    "patterns",
    [
        ",".join(f"*{number:05x}*" for number in range(SIZE // 8)),
        ",".join(f"?{number:05x}" for number in range(SIZE // 7)),
        ",".join(["*a*a*a*a*a*a*a*a*a*a*a*b"] * (SIZE // 25)),
        "*" + "a*" * (SIZE // 2) + "b",
        "*" + "?a" * (SIZE // 2),
        ",".join(["!*"] * (SIZE // 3)),
    ],
    ids=["different", "one character", "many stars", "one with stars", "one with characters", "negated"],
)
def test_SE_a_file_full_of_patterns_is_judged_in_linear_time(patterns: str) -> None:
    (entry,), _ = parse_known_hosts(f"{patterns} ssh-ed25519 {KEY}\n", "file")
    start = time.process_time()
    assert not entry.matches("a" * 250 + ".net")
    assert time.process_time() - start < SOON_S


def test_SE_a_known_hosts_file_of_a_host_file_has_at_most_a_mebibyte(tmp_path: Path) -> None:
    path = tmp_path / "known"
    path.write_text(f"titan ssh-ed25519 {KEY}\n" * (SIZE // 50))
    assert path.stat().st_size > SIZE
    address = Address("titan", "titan", port=22, user="me", known_hosts=str(path))
    hop = resolve_route(address).target
    with pytest.raises(HostKeyRefused, match=f"larger than {SIZE} bytes"):
        read_known_hosts(hop, tmp_path / "own")
    assert resolve_route(Address("titan", "titan")).target.known_hosts_limit > SIZE, "a file of the user may be larger"


def test_the_own_known_hosts_file_may_be_larger(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text(f"titan ssh-ed25519 {KEY}\n" * (SIZE // 50))
    (tmp_path / "known").write_text("")
    address = Address("titan", "titan", port=22, user="me", known_hosts=str(tmp_path / "known"))
    hop = resolve_route(address).target
    assert read_known_hosts(hop, own).key_types(hop) == ("ssh-ed25519",)
