"""SE: a confirmation of a host file is valid for the host keys in its file of `known_hosts:`, not only for its name."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.pinned_keys import destination_of
from pipeline.hosts.trust import keep_trust, require_trust, trusted_address
from remote.errors import HostFileUntrusted
from remote.link.ssh.host_keys import read_known_hosts
from remote.link.ssh.resolve import resolve_route
from tests.lab.answers import Person
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import ssh_home

__all__ = ["ssh_home"]
PIN = "SHA256:" + "a" * 43


def line(name: str, fill: int) -> str:
    blob = b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + bytes([fill]) * 32
    return f"{name} ssh-ed25519 {base64.b64encode(blob).decode()}\n"


def redirected(folder: Path, *lines: str) -> Path:
    """Write a file for the alias `titan` that has a file of known_hosts. Return the latter."""
    (folder / "kh").write_text("".join(lines))
    write(folder, f"host: titan\nknown_hosts: {folder}/kh\n", "hosts/titan")
    return folder / "kh"


@pytest.mark.parametrize("new", [line("10.0.0.1", 2), "", "@revoked " + line("*", 1), line("10.0.0.*", 1) * 2 + "x"])
def test_SE_another_key_in_the_file_of_known_hosts_must_be_confirmed(tmp_path: Path, new: str) -> None:
    known = redirected(tmp_path, line("10.0.0.1", 1))
    require_trust(load_host("titan", tmp_path), Person(yes=True))
    require_trust(load_host("titan", tmp_path), None)
    known.write_text(new)
    if line("10.0.0.*", 1) in new:
        require_trust(load_host("titan", tmp_path), None)
        return
    with pytest.raises(HostFileUntrusted, match="with another host key"):
        require_trust(load_host("titan", tmp_path), None)


def test_a_new_line_for_another_machine_needs_no_confirmation(tmp_path: Path) -> None:
    known = redirected(tmp_path, line("10.0.0.1", 1))
    require_trust(load_host("titan", tmp_path), Person(yes=True))
    known.write_text("# ours\n" + line("elsewhere", 3) + line("10.0.0.1", 1))
    require_trust(load_host("titan", tmp_path), None)


def test_SE_the_keys_that_were_confirmed_are_those_that_the_login_uses(tmp_path: Path) -> None:
    known = redirected(tmp_path, line("10.0.0.1", 1))
    host = load_host("titan", tmp_path)
    require_trust(host, Person(yes=True))
    known.write_text(line("10.0.0.1", 2))
    hop = resolve_route(trusted_address(host)).target
    [entry] = read_known_hosts(hop, tmp_path / "own").entries
    assert entry.key.blob.endswith(b"\1" * 32)


def test_SE_secrets_and_data_are_confirmed_for_the_keys_of_the_machine(tmp_path: Path) -> None:
    known = redirected(tmp_path, line("10.0.0.1", 1))
    before = destination_of(load_host("titan", tmp_path))
    known.write_text(line("elsewhere", 1) + line("10.0.0.1", 1))
    assert destination_of(load_host("titan", tmp_path)) == before
    known.write_text(line("10.0.0.1", 2))
    assert destination_of(load_host("titan", tmp_path)) != before


def test_SE_only_the_user_can_replace_the_known_key_of_a_machine(tmp_path: Path) -> None:
    redirected(tmp_path, line("10.0.0.1", 1))
    for answer in (None, Person(yes=True)):
        if answer is not None:
            require_trust(load_host("titan", tmp_path), answer)
        assert not trusted_address(load_host("titan", tmp_path)).trusts_keys
    write(tmp_path, f"host: rig.example\nhost_key: {PIN}\n", "hosts/rig")
    assert not trusted_address(load_host("rig", tmp_path)).trusts_keys
    for name in ("rig", "rig.example", "titan"):
        given = load_host(name, tmp_path, [f"host.host_key=SHA256:{'b' * 43}"])
        assert trusted_address(given).trusts_keys
    keep_trust(load_host("rig", tmp_path), os.environ)
    assert trusted_address(load_host("rig", tmp_path)).trusts_keys, "`pipeline init` wrote what the user chose"
