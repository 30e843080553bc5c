"""Authentication: every key that ssh would try, then prompts; and the error if the server rejects all."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import AuthRefused, HostUnfit
from remote.link.address import Address
from remote.link.reach import open_host
from remote.link.ssh.login import NO_PASSWORD, NO_QUESTION, LoginStrategy, missing_key_hint, render_question
from remote.link.ssh.route import ResolvedHop
from remote.protocol.exits import ExitCode
from tests.lab.answers import Interrupts, Person
from tests.lab.sshd import Sshd, make_key
from tests.remote.link.ssh.refusals import StartSshd, locked_server, refused


def test_BI_30_a_wrong_key_is_named_by_its_path(sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    wrong = make_key(tmp_path / ".ssh" / "wrong")
    error = refused(sshd, identity_file=str(wrong))
    assert str(wrong) in error.message and "publickey" in error.message
    assert f"ssh-copy-id -i {wrong}.pub -p {sshd.port}" in error.hint
    Path(f"{wrong}.pub").unlink()
    assert f"ssh-copy-id -p {sshd.port}" in refused(sshd, identity_file=str(wrong)).hint
    assert wrong.read_text().splitlines()[1] not in error.message


@pytest.mark.parametrize("linked", [False, True], ids=["in the project", "linked from ~/.ssh"])
def test_SE_a_key_of_a_project_is_not_offered_for_the_account(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """Whoever wrote the project has the private key, and could log in to the account afterwards."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    key = make_key(tmp_path / "lab")
    if linked:
        for suffix in ("", ".pub"):
            (tmp_path / "home" / ".ssh" / f"lab{suffix}").symlink_to(f"{key}{suffix}")
        key = tmp_path / "home" / ".ssh" / "lab"
    assert "-i" not in refused(sshd, identity_file=str(key)).hint.split()


def test_BI_30_a_login_without_any_key_is_reported(sshd: Sshd) -> None:
    error = refused(sshd, identity_file=None)
    assert "no key" in error.message


def test_BI_30_a_missing_key_file_is_reported(sshd: Sshd, tmp_path: Path) -> None:
    error = refused(sshd, identity_file=str(tmp_path / "missing"))
    assert f"{tmp_path / 'missing'} (not found)" in error.message
    assert error.hint == missing_key_hint(str(tmp_path / "missing"))


@pytest.mark.parametrize("method", [NO_QUESTION, NO_PASSWORD, "password"])
def test_a_missing_key_file_is_corrected_also_after_a_password_was_rejected(tmp_path: Path, method: str) -> None:
    path = tmp_path / "missing"
    strategy = LoginStrategy(ResolvedHop("titan", "127.0.0.1", user="me", identities_only=True), None)
    assert not list(strategy._from_file(path, None))
    strategy.tried.append(method)
    assert strategy._error().hint == missing_key_hint(str(path))


def test_a_key_that_the_server_rejected_is_copied_also_if_another_file_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "missing"
    strategy = LoginStrategy(ResolvedHop("titan", "127.0.0.1", user="me", identities_only=True), None)
    assert not list(strategy._from_file(path, None))
    strategy.tried.append("other key")
    assert strategy._error().hint.startswith("ssh-copy-id")


@pytest.mark.parametrize("path", ["~/.ssh/id_nope", "/a/id_nope", "/a/id; rm -rf ~", "/a/$(id)"])
def test_the_hint_for_a_missing_key_has_the_path_of_the_key_if_it_is_plain(path: str) -> None:
    hint = missing_key_hint(path)
    assert hint.endswith("set `identity_file:` in the host file to the path of your private key")
    assert (path in hint) is path.endswith("id_nope")


def test_BI_30_an_encrypted_key_without_a_prompter_is_reported(start_sshd: StartSshd) -> None:
    server = locked_server(start_sshd)
    error = refused(server)
    assert "needs a passphrase" in error.message
    assert error.hint == f"ssh-add {server.user_key}"


@pytest.mark.parametrize("typed", [["open sesame"], ["wrong", "open sesame"]])
def test_a_passphrase_is_prompted_for_again_after_a_wrong_one(start_sshd: StartSshd, typed: list[str]) -> None:
    person = Person(secrets=list(typed))
    server = locked_server(start_sshd)
    host = open_host(server.address(), prompter=person)
    assert host.probe(["true"]).ok
    host.close()
    assert len(person.questions) == len(typed)
    assert str(server.user_key) in person.questions[0]


def test_no_passphrase_is_prompted_for_if_the_server_rejects_the_key(sshd: Sshd, tmp_path: Path) -> None:
    locked = make_key(tmp_path / "locked", passphrase="secret")
    person = Person(secrets=["secret"])
    error = refused(sshd, prompter=person, identity_file=str(locked))
    assert person.questions == []
    assert str(locked) in error.message


def test_BI_60_ctrl_c_at_the_passphrase_ends_at_once(start_sshd: StartSshd) -> None:
    host = open_host(locked_server(start_sshd).address(), prompter=Interrupts())
    with pytest.raises(KeyboardInterrupt):
        host.probe(["true"])


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_every_type_of_key_is_accepted(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path / "mine", kind=kind)
    (sshd.root / "authorized_keys").write_text(Path(f"{key}.pub").read_text())
    host = open_host(sshd.address(identity_file=str(key)))
    assert host.probe(["true"]).ok
    host.close()


def test_a_server_that_hangs_up_after_one_wrong_key_has_refused_authentication(
    start_sshd: StartSshd, tmp_path: Path
) -> None:
    server = start_sshd(lines=["MaxAuthTries 1"])
    error = refused(server, identity_file=str(make_key(tmp_path / "wrong")))
    assert "wrong" in error.message


def test_BI_37_a_key_that_others_can_read_is_not_used(sshd: Sshd) -> None:
    sshd.user_key.chmod(0o644)
    error = refused(sshd)
    assert "0644" in error.message
    assert error.hint == f"chmod 600 {sshd.user_key}"
    assert "Accepted" not in sshd.log


def test_BI_37_a_file_that_is_no_key_is_reported(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "nokey").write_text("hello\n")
    (tmp_path / "nokey").chmod(0o600)
    assert "not a private key" in refused(sshd, identity_file=str(tmp_path / "nokey")).message


@pytest.mark.parametrize("prompter", [None, Person(secrets=["wrong", "wrong again", "no"])])
def test_BI_38_a_rejected_password_and_a_missing_prompter_are_reported(
    start_sshd: StartSshd, prompter: Person | None
) -> None:
    server = start_sshd(lines=["PubkeyAuthentication no", "PasswordAuthentication yes", "MaxAuthTries 10"])
    error = refused(server, prompter=prompter)
    assert "password" in error.message
    if prompter:
        assert len(prompter.questions) == 3
        assert "wrong" not in error.message


@pytest.mark.parametrize(
    "setting",
    [
        "BatchMode yes",
        "PasswordAuthentication no\n  KbdInteractiveAuthentication no",
        "PreferredAuthentications publickey",
        "NumberOfPasswordPrompts 0",
    ],
)
def test_SE_no_password_is_asked_for_if_ssh_would_not_ask(
    start_sshd: StartSshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    server = start_sshd(lines=["PubkeyAuthentication no", "PasswordAuthentication yes"])
    (tmp_path / "config").write_text(f"{server.ssh_config()}  {setting}\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "config"))
    person = Person(secrets=["secret"])
    assert "it allows" in refused(server, prompter=person, host="titan", port=None).message
    assert person.questions == []


@pytest.mark.parametrize(
    ("lines", "secrets", "tried"),
    [
        (["PasswordAuthentication yes"], [], "password (none was typed; without a terminal, none is asked for)"),
        (["PasswordAuthentication yes"], ["wrong", "wrong", "wrong"], "password; it allows"),
        (["PasswordAuthentication no", "KbdInteractiveAuthentication yes", "UsePAM no"], ["x"], "asked no question"),
    ],
)
def test_a_password_counts_as_tried_only_if_it_was_typed(
    start_sshd: StartSshd, lines: list[str], secrets: list[str], tried: str
) -> None:
    server = start_sshd(lines=["PubkeyAuthentication no", "MaxAuthTries 10", *lines])
    assert tried in refused(server, prompter=Person(secrets=secrets)).message


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("Password: ", "Password:"),
        ("\n\nPassphrase for /home/me/.ssh/id: ", "Passphrase for /home/me/.ssh/id:"),
        ("\r\x1b[2KPassphrase for id: ", "\\x1b[2KPassphrase for id:"),
        ("a\u2028b\u00a0\u3000c\td", "a b c d"),
        ('" Answer to the server: \u202e', "' Answer to the server: \\u202e"),
        ("x" + " " * 300 + "Passphrase for id: ", "x Passphrase for id:"),
        ("x" * 300, "x" * 100 + "[cut]"),
    ],
)
def test_a_question_of_a_server_is_quoted_on_one_line(prompt: str, shown: str) -> None:
    question = render_question("me@host:22", prompt)
    assert question == f'The server me@host:22 asks: "{shown}" Answer to the server: '


def test_only_the_first_questions_of_a_server_that_asks_many_are_shown() -> None:
    person = Person(secrets=["one", "two"])
    strategy = LoginStrategy(ResolvedHop("titan", "127.0.0.1", user="me"), person)
    assert strategy._answer("", "", [("?", False)] * 1000) == ["one", "two", *[""] * 998]
    assert len(person.questions) == 10


@pytest.mark.root
def test_a_password_is_accepted(start_sshd: StartSshd, account: Callable[..., str]) -> None:
    hashed = subprocess.run(["openssl", "passwd", "-6", "correct horse"], capture_output=True, text=True, check=True)
    name = account(password=hashed.stdout.strip())
    server = start_sshd(lines=["PubkeyAuthentication no", "PasswordAuthentication yes"])
    host = open_host(
        server.address(user=name, workdir=f"/tmp/{name}"), keep=False, prompter=Person(secrets=["correct horse"])
    )
    assert host.probe(["id", "-un"]).stdout.decode().strip() == name
    host.close()


def address_of(start_sshd: StartSshd, name: str, tmp_path: Path) -> Address:
    """Return the address of a server on which the account's key is authorized; sshd reads the file as that account."""
    key = make_key(tmp_path / "mine")
    keys = Path(pwd.getpwnam(name).pw_dir) / "keys"
    keys.write_text(Path(f"{key}.pub").read_text())
    keys.chmod(0o644)
    server = start_sshd(lines=[f"AuthorizedKeysFile {keys}"])
    return server.address(user=name, identity_file=str(key), workdir=f"/tmp/{name}")


@pytest.mark.root
def test_a_key_of_another_account_is_accepted(
    start_sshd: StartSshd, account: Callable[..., str], tmp_path: Path
) -> None:
    name = account()
    host = open_host(address_of(start_sshd, name, tmp_path), keep=False)
    assert host.probe(["id", "-un"]).stdout.decode().strip() == name
    host.close()


@pytest.mark.root
def test_BI_39_a_locked_account_is_reported(start_sshd: StartSshd, account: Callable[..., str], tmp_path: Path) -> None:
    host = open_host(address_of(start_sshd, account(password="!"), tmp_path), keep=False)
    with pytest.raises(AuthRefused) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.AUTH


@pytest.mark.root
def test_BI_39_a_nologin_shell_is_reported(start_sshd: StartSshd, account: Callable[..., str], tmp_path: Path) -> None:
    nologin = shutil.which("nologin", path="/usr/sbin:/sbin") or "/usr/sbin/nologin"
    host = open_host(address_of(start_sshd, account(shell=nologin), tmp_path), keep=False)
    with pytest.raises(HostUnfit, match="not available") as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "nologin" in caught.value.hint


def test_BI_39_the_first_line_of_a_forced_command_is_shown_without_control_characters(start_sshd: StartSshd) -> None:
    server = start_sshd(lines=[r"ForceCommand printf '\033[31mbackups only\033]0;x\007\n'; exit 1"])
    host = open_host(server.address())
    with pytest.raises(HostUnfit) as caught:
        host.probe(["true"])
    host.close()
    assert "backups only" in caught.value.message
    assert "\x1b" not in caught.value.message
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


def test_the_login_name_is_the_configured_one(sshd: Sshd) -> None:
    host = open_host(sshd.address())
    assert host.probe(["id", "-un"]).stdout.decode().strip() == pwd.getpwuid(os.getuid()).pw_name
    host.close()


def test_path_of_a_key_that_others_can_read_is_quoted_in_the_hint(sshd: Sshd, tmp_path: Path) -> None:
    key = make_key(tmp_path / "id; touch PWNED #")
    key.chmod(0o644)
    assert refused(sshd, identity_file=str(key)).hint == f"chmod 600 '{key}'"


def test_path_of_an_encrypted_key_is_quoted_in_the_hint(start_sshd: StartSshd, tmp_path: Path) -> None:
    server = locked_server(start_sshd)
    key = tmp_path / "$(touch PWNED)"
    shutil.copy(server.user_key, key)
    assert refused(server, identity_file=str(key)).hint == f"ssh-add '{key}'"
