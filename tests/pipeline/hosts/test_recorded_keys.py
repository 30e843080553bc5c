"""SE: the user's own record of a run does not make the settings of a project's host file the user's choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.config.hosts import load_host
from pipeline.hosts.open_run import host_of_note
from pipeline.hosts.pinned_keys import LONGEST_LINES
from pipeline.hosts.trust import keep_trust, keep_trust_in_owners, trusted_address
from pipeline.records.host_trust import HostTrust
from pipeline.records.layout import Records
from remote.errors import HostKeyRefused
from remote.link.ssh.host_keys import read_known_hosts
from remote.link.ssh.resolve import resolve_route
from tests.lab.sshd import Sshd, login_name, make_key
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.cloned_notes import RUN
from tests.pipeline.hosts.own_notes import reaches, recorded, users
from tests.remote.link.ssh.refused_keys import attempts

__all__ = ["users"]

VERBS = ["status", "wait", "pull", "pull --weights", "logs", "tail", "attach", "stop", "evaluate", "merge"]


def other_line(server: Sshd) -> str:
    """Return a line with another key for the address of the server."""
    key = Path(f"{make_key(server.root / 'other')}.pub").read_text().split()
    return f"[{server.listen}]:{server.port} {key[0]} {key[1]}\n"


def host_file(server: Sshd, *more: str) -> Path:
    """Write a project's host file, which names the file `kh` as `known_hosts:`. Return `kh`."""
    known = Path.cwd() / "kh"
    settings = [f"host: {server.listen}", f"port: {server.port}", f"user: {login_name()}", f"known_hosts: {known}"]
    settings += [f"identity_file: {server.user_key}", f"workdir: {server.home}/halfstep", *more]
    write(Path.cwd(), "\n".join([*settings, ""]), "hosts/rig")
    return known


@pytest.mark.parametrize("verb", VERBS)
def test_SE_no_verb_with_a_run_logs_in_if_only_the_projects_file_has_the_key(
    verb: str, sshd: Sshd, users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(Path.cwd(), "command: python train.py\n", "plain")
    Path("train.py").touch()
    known = host_file(sshd)
    users.write_text(other_line(sshd))
    known.write_text(other_line(sshd))
    recorded(load_host("rig", Path.cwd()))
    known.write_text(sshd.known_line())
    assert run([*verb.split(), RUN, "--json"]) != 0
    assert "HAS CHANGED" in "".join(capsys.readouterr())
    assert attempts(sshd) == []


@pytest.mark.parametrize("remains", [True, False])
def test_SE_the_keys_in_a_record_are_those_of_the_start(remains: bool, sshd: Sshd) -> None:
    known = host_file(sshd)
    known.write_text("# ours\n" + other_line(sshd))
    refused, known_key = recorded(load_host("rig", Path.cwd())), sshd.known_line()
    if remains:
        known.write_text(known_key)
    else:
        known.unlink()
    with pytest.raises(HostKeyRefused, match="HAS CHANGED") as caught:
        reaches(refused)
    assert attempts(sshd) == [] and f"--resume {RUN}" in caught.value.hint
    known.write_text(known_key)
    valid = recorded(load_host("rig", Path.cwd()))
    known.write_text(other_line(sshd))
    assert reaches(valid)


@pytest.mark.parametrize("revoked", [False, True])
def test_a_new_key_that_the_user_has_added_replaces_those_of_the_record(revoked: bool, sshd: Sshd, users: Path) -> None:
    known = host_file(sshd)
    known.write_text(other_line(sshd) + (f"@revoked {sshd.known_line()}" if revoked else ""))
    found = recorded(load_host("rig", Path.cwd()))
    with pytest.raises(HostKeyRefused, match="revoked" if revoked else "HAS CHANGED"):
        reaches(found)
    users.write_text(sshd.known_line())
    if not revoked:
        assert reaches(found)
        return
    with pytest.raises(HostKeyRefused, match="revoked"):
        reaches(found)


def test_a_revoked_key_of_the_file_stays_revoked_in_the_record(sshd: Sshd, users: Path) -> None:
    host_file(sshd).write_text(f"@revoked {sshd.known_line()}")
    users.write_text(sshd.known_line())
    with pytest.raises(HostKeyRefused, match="revoked"):
        reaches(recorded(load_host("rig", Path.cwd())))


def test_SE_the_users_own_file_is_read_again_if_the_host_file_names_it(sshd: Sshd, users: Path) -> None:
    known = host_file(sshd)
    (Path.cwd() / "config").write_text(f'Host *\n  UserKnownHostsFile "{known}"\n')
    known.write_text(sshd.known_line())
    found = recorded(load_host("rig", Path.cwd()))
    known.write_text(f"@revoked {sshd.known_line()}")
    with pytest.raises(HostKeyRefused, match="revoked"):
        reaches(found)


@pytest.mark.parametrize("how", ["file", "confirmed", "set", "older"])
def test_SE_only_what_the_user_chose_replaces_a_known_key_in_later_commands(how: str, sshd: Sshd, users: Path) -> None:
    known = host_file(sshd)
    users.write_text(other_line(sshd))
    known.write_text(sshd.known_line())
    host = load_host("rig", Path.cwd(), [f"host.known_hosts={sshd.known_hosts}"] if how == "set" else [])
    if how == "confirmed":
        keep_trust(host)
    found = recorded(host)
    if how == "older":
        found = replace(found, trust=HostTrust())
    if how in ("confirmed", "set"):
        assert reaches(found)
        return
    with pytest.raises(HostKeyRefused, match="HAS CHANGED"):
        reaches(found)


@pytest.mark.parametrize("how", ["file", "confirmed", "set", "older"])
def test_SE_a_record_trusts_the_folders_of_other_users_only_if_the_user_did(how: str, tmp_path: Path) -> None:
    write(tmp_path, "host: rig.example\nworkdir: /srv/theirs\n", "hosts/rig")
    host = load_host("rig", tmp_path, ["host.workdir=/srv/mine"] if how == "set" else [])
    if how == "confirmed":
        keep_trust_in_owners(host)
    found = recorded(host)
    if how == "older":
        found = replace(found, trust=HostTrust())
    assert trusted_address(host_of_note(found, Records(tmp_path))).trusts_owners == (how in ("confirmed", "set"))


def test_a_file_with_many_keys_of_the_host_fits_into_the_record(sshd: Sshd) -> None:
    lines = [other_line(sshd).replace("[", f"x{number:04},[", 1) for number in range(5000)]
    host_file(sshd).write_text("".join(lines) + f"@revoked {sshd.known_line()}")
    found = recorded(load_host("rig", Path.cwd()))
    assert 0.9 * LONGEST_LINES < len(found.trust.known_hosts or "") <= LONGEST_LINES
    hop = resolve_route(trusted_address(host_of_note(found, Records(Path.cwd())))).target
    assert any(entry.revoked for entry in read_known_hosts(hop, Path("own")).entries)
