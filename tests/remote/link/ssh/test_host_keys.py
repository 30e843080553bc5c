"""Host keys are verified on the host and on every gateway, against real servers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import HostKeyRefused
from remote.link.reach import open_host
from remote.link.ssh.host_keys import own_known_hosts
from tests.lab.answers import Interrupts, Person
from tests.lab.sshd import Sshd, make_key
from tests.remote.link.ssh.refused_keys import attempts, refused

StartSshd = Callable[..., Sshd]


def test_BI_31_unknown_host_key_without_a_terminal_is_refused_before_anything_is_sent(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    error = refused(sshd)
    assert sshd.fingerprint() in error.message
    assert f"--set host.host_key={sshd.fingerprint()}" in error.hint
    assert attempts(sshd) == []
    assert not own_known_hosts().exists()
    assert sshd.known_hosts.read_text() == ""


def test_BI_31_an_unknown_host_key_is_prompted_for_once_and_added_to_halfsteps_own_file(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    person = Person(yes=True)
    host = open_host(sshd.address(), prompter=person)
    assert host.probe(["true"]).ok
    host.close()
    assert len(person.questions) == 1
    assert sshd.fingerprint() in person.questions[0]
    assert sshd.known_hosts.read_text() == ""
    assert own_known_hosts().read_text() == sshd.known_line()
    again = open_host(sshd.address())
    assert again.probe(["true"]).ok
    again.close()


def test_BI_31_unknown_host_key_that_is_declined_is_refused(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    host = open_host(sshd.address(), prompter=Person(yes=False))
    with pytest.raises(HostKeyRefused):
        host.probe(["true"])
    host.close()
    assert attempts(sshd) == []
    assert not own_known_hosts().exists()


def test_BI_60_ctrl_c_at_the_question_leaves_nothing_open(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    host = open_host(sshd.address(), prompter=Interrupts())
    with pytest.raises(KeyboardInterrupt):
        host.probe(["true"])
    assert attempts(sshd) == []
    assert not own_known_hosts().exists()


def test_BI_31_a_pinned_key_needs_no_file(sshd: Sshd) -> None:
    sshd.known_hosts.unlink()
    host = open_host(sshd.address(host_key=sshd.fingerprint()))
    assert host.probe(["true"]).ok
    host.close()
    assert not own_known_hosts().exists()


def test_BI_32_changed_host_key_is_refused_with_both_fingerprints(sshd: Sshd, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    kind, encoded = Path(f"{other}.pub").read_text().split()[:2]
    sshd.known_hosts.write_text(f"[{sshd.listen}]:{sshd.port} {kind} {encoded}\n")
    fingerprint = subprocess.run(
        ["ssh-keygen", "-lf", other], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    before = sshd.known_hosts.read_bytes()
    error = refused(sshd)
    assert "HAS CHANGED" in error.message
    assert fingerprint in error.message
    assert sshd.fingerprint() in error.message
    assert f"ssh-keygen -R '[{sshd.listen}]:{sshd.port}'" in error.hint
    assert attempts(sshd) == []
    assert sshd.known_hosts.read_bytes() == before


@pytest.mark.parametrize("policy", ["ask", "accept-new", "no"])
def test_BI_32_a_changed_host_key_is_refused_under_every_policy(
    policy: str, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Path(f"{make_key(tmp_path / 'other')}.pub").read_text().split()
    sshd.known_hosts.write_text(f"[{sshd.listen}]:{sshd.port} {other[0]} {other[1]}\n")
    config = tmp_path / "config"
    config.write_text(sshd.ssh_config() + f"  StrictHostKeyChecking {policy}\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    person = Person(yes=True)
    host = open_host(sshd.address(host="titan", port=None, identity_file=None, known_hosts=None), prompter=person)
    with pytest.raises(HostKeyRefused, match="HAS CHANGED"):
        host.probe(["true"])
    host.close()
    assert person.questions == []
    assert attempts(sshd) == []


@pytest.mark.parametrize("setting", ["StrictHostKeyChecking yes", "BatchMode yes"])
def test_SE_an_unknown_key_is_refused_without_a_question_if_ssh_would_not_ask(
    setting: str, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sshd.known_hosts.unlink()
    (tmp_path / "config").write_text(f"{sshd.ssh_config()}  {setting}\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "config"))
    person = Person(yes=True)
    host = open_host(sshd.address(host="titan", port=None, identity_file=None, known_hosts=None), prompter=person)
    with pytest.raises(HostKeyRefused, match="is unknown") as caught:
        host.probe(["true"])
    host.close()
    assert person.questions == [] and attempts(sshd) == [] and not own_known_hosts().exists()
    assert setting in caught.value.hint


def test_BI_32_a_key_other_than_the_pinned_one_is_refused(sshd: Sshd) -> None:
    error = refused(sshd, host_key="SHA256:" + "A" * 43)
    assert sshd.fingerprint() in error.message
    assert "SHA256:" + "A" * 43 in error.message
    assert attempts(sshd) == []


def test_BI_32_a_reinstalled_host_on_the_same_port_is_refused(sshd: Sshd, start_sshd: StartSshd) -> None:
    sshd.stop()
    anew = start_sshd("anew", port=sshd.port)
    host = open_host(anew.address(known_hosts=str(sshd.known_hosts)))
    with pytest.raises(HostKeyRefused, match="HAS CHANGED"):
        host.probe(["true"])
    host.close()
    assert attempts(anew) == []


def test_BI_33_a_known_key_of_another_type_only_is_a_changed_key(start_sshd: StartSshd, tmp_path: Path) -> None:
    server = start_sshd(host_kinds=("ed25519",))
    other = Path(f"{make_key(tmp_path / 'other', kind='ecdsa')}.pub").read_text().split()
    server.known_hosts.write_text(f"[{server.listen}]:{server.port} {other[0]} {other[1]}\n")
    error = refused(server)
    assert "ecdsa-sha2-nistp256" in error.message
    assert server.fingerprint() in error.message


@pytest.mark.parametrize("known", ["ed25519", "ecdsa", "rsa"])
def test_the_known_key_of_a_server_with_several_is_requested(start_sshd: StartSshd, known: str) -> None:
    server = start_sshd(host_kinds=("rsa", "ecdsa", "ed25519"))
    server.known_hosts.write_text(server.known_line(known))
    host = open_host(server.address())
    assert host.probe(["true"]).ok
    host.close()


def test_BI_34_hashed_revoked_and_malformed_lines_are_handled(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("nonsense\n" + sshd.known_line())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", sshd.known_hosts], check=False, capture_output=True)
    text = sshd.known_hosts.read_text()
    if "|1|" not in text:
        sshd.known_hosts.write_text(sshd.known_line())
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", sshd.known_hosts], check=True, capture_output=True)
        sshd.known_hosts.write_text("nonsense\n" + sshd.known_hosts.read_text())
    before = sshd.known_hosts.read_bytes()
    host = open_host(sshd.address())
    assert host.probe(["true"]).ok
    assert [warning for warning in host.warnings() if ":1 " in warning]
    host.close()
    assert sshd.known_hosts.read_bytes() == before


def test_BI_35_an_unreadable_known_hosts_is_an_error(sshd: Sshd) -> None:
    sshd.known_hosts.unlink()
    sshd.known_hosts.mkdir()
    error = refused(sshd)
    assert str(sshd.known_hosts) in error.message
    assert attempts(sshd) == []


def test_BI_35_a_world_writable_known_hosts_is_a_warning(sshd: Sshd) -> None:
    sshd.known_hosts.chmod(0o666)
    host = open_host(sshd.address())
    assert host.probe(["true"]).ok
    assert any("is writable by every user" in warning for warning in host.warnings())
    host.close()


def both(gateway: Sshd, target: Sshd, tmp_path: Path) -> Path:
    """Return an ssh config in which `titan` is reached through `gate`."""
    config = tmp_path / "config"
    config.write_text(gateway.ssh_config("gate") + target.ssh_config("titan") + "  ProxyJump gate\n")
    return config


def test_BI_36_a_gateway_with_a_changed_key_is_refused_by_name(
    start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, target = start_sshd("gateway"), start_sshd("target")
    other = Path(f"{make_key(tmp_path / 'other')}.pub").read_text().split()
    gateway.known_hosts.write_text(f"[{gateway.listen}]:{gateway.port} {other[0]} {other[1]}\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(both(gateway, target, tmp_path)))
    host = open_host(target.address(host="titan", port=None, identity_file=None, known_hosts=None))
    with pytest.raises(HostKeyRefused, match="HAS CHANGED") as caught:
        host.probe(["true"])
    host.close()
    assert "gate (" in caught.value.message
    assert attempts(gateway) == []
    assert attempts(target) == []


def test_BI_36_the_host_behind_a_trusted_gateway_is_verified_too(
    start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway, target = start_sshd("gateway"), start_sshd("target")
    target.known_hosts.write_text("")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(both(gateway, target, tmp_path)))
    host = open_host(target.address(host="titan", port=None, identity_file=None, known_hosts=None))
    with pytest.raises(HostKeyRefused, match="unknown") as caught:
        host.probe(["true"])
    host.close()
    assert target.fingerprint() in caught.value.message
    assert attempts(target) == []


def test_a_host_behind_several_gateways_is_reached(
    start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, target = start_sshd("first"), start_sshd("second"), start_sshd("target")
    config = tmp_path / "config"
    config.write_text(
        first.ssh_config("first")
        + second.ssh_config("second")
        + "  ProxyJump first\n"
        + target.ssh_config("titan")
        + "  ProxyJump second\n"
    )
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    host = open_host(target.address(host="titan", port=None, identity_file=None, known_hosts=None))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    assert [step for step, _ in host.describe()] == ["connect", "host key", "login"]
    host.close()
    for server in (first, second, target):
        assert sum("Accepted publickey" in line for line in server.log.splitlines()) == 1
