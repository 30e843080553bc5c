"""SE-13: a host file that redirects a name, trains on the laptop or names secrets is confirmed before it is used."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pipeline.config.host_model import HostConfig
from pipeline.config.hosts import load_host
from pipeline.hosts.trust import keep_trust, require_trust, trusted_address, trusted_hosts
from pipeline.records.consents import keep_consent
from remote.errors import HostFileUntrusted
from remote.protocol.exits import ExitCode
from tests.pipeline.config.config_files import write

ALIAS = "Host titan\n  HostName 10.0.0.1\n  User me\n"


LOOPBACK = (
    "127.0.0.1",
    "127.1",
    "2130706433",
    "127.9.9.9",
    "0.0.0.0",
    "LOCALHOST",
    "a.localhost",
    "::1",
    "::ffff:127.0.0.1",
)
HASHED = (b"hashed", b"[hashed-port]:2222")
SAME_ADDRESS = ("203.0.113.9", "3405803785", "0xcb.0.113.9", "203.0.28937", "::ffff:203.0.113.9", "::ffff:cb00:7109")


@dataclass
class Person:
    """A person at a terminal who always gives the same answer."""

    answer: bool
    questions: list[str] = field(default_factory=list)

    def confirm(self, question: str) -> bool:
        self.questions.append(question)
        return self.answer

    def can_confirm(self) -> bool:
        return True

    def secret(self, prompt: str) -> str | None:
        return None


@pytest.fixture(autouse=True)
def _alias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ssh").write_text(ALIAS)
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "ssh"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/known_hosts").write_text(known_hosts())


def known_hosts() -> str:
    """Return entries of `visited`, of the hashed names as HashKnownHosts stores them, and of a port of `forwarded`."""
    blob = b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + bytes(32)
    salt = base64.b64encode(b"salt" * 5).decode()
    hashed = [base64.b64encode(hmac.digest(b"salt" * 5, name, "sha1")).decode() for name in HASHED]
    names = ("other,visited", *(f"|1|{salt}|{digest}" for digest in hashed), "[forwarded]:2222", "203.0.113.9")
    return "".join(f"{name} ssh-ed25519 {base64.b64encode(blob).decode()}\n" for name in names)


@pytest.mark.parametrize("damage", ["", "unreadable", "endless"])
def test_a_name_of_a_host_file_that_means_nothing_else_needs_no_confirmation(tmp_path: Path, damage: str) -> None:
    known = tmp_path / "home/.ssh/known_hosts"
    if damage:
        known.unlink()
        known.mkdir() if damage == "unreadable" else known.symlink_to("/dev/zero")
    write(tmp_path, "host: rig.example\n", "hosts/rig")
    file = write(tmp_path, "host: 10.6.6.6\n", "hosts/gpu.lab.example")
    require_trust(load_host("rig", tmp_path), None)
    # A host that was given as a file is the user's own choice.
    require_trust(load_host(str(file), tmp_path), None)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("titan", "host: 10.6.6.6\n", "10.6.6.6"),
        ("titan", "host: 10.0.0.1\nuser: somebody\n", "somebody@10.0.0.1"),
        ("titan", "host: titan\nknown_hosts: /project/known_hosts\n", "another route or with another host key"),
        ("titan", "host: titan\nproxy_jump: [gate.example]\n", "another route"),
        (
            "titan",
            "host: titan\nidentity_file: ~/.ssh/other\n",
            "logs in to me@10.0.0.1:22 with the key ~/.ssh/ot",
        ),
        ("titan", "host: 10.0.0.1\nuser: me\nidentity_file: planted\n", "with the key planted, not with those of the"),
        ("gpu.lab.example", "host: gpu.lab.example\nidentity_file: ~/.ssh/other\n", "with the key ~/.ssh/other"),
        ("visited", "host: visited\nidentity_file: ~/.ssh/other\n", "with the key ~/.ssh/other"),
        ("titan", "host: local\n", "names the local machine"),
        ("titan", 'host: "[local]"\n', "names the local machine"),
        ("gpu", "host: local\n", "trains on the local machine"),
        ("gpu", 'host: "[local]"\ncontainer: torch\n', "trains on the local machine"),
        ("local", "host: 10.6.6.6\n", "10.6.6.6, not the local machine"),
        ("local", "host: local\npython: /opt/planted/python\n", "uses python /opt/planted/python"),
        ("local", "host: local\ncontainer: planted\n", "uses container planted"),
        ("local", "host: local\nworkdir: ~/demo/.wd\n", "uses workdir ~/demo/.wd on the local machine"),
        ("local", "host: local\nworkdir: /proc/self/cwd\ncard: 7.5\n", "uses workdir /proc/self/cwd"),
        ("rig", "host: rig.example\nsecrets: [AWS_SECRET_ACCESS_KEY]\n", "AWS_SECRET_ACCESS_KEY"),
        ("titan", "host: titan\nsecrets: [HF_TOKEN]\n", "HF_TOKEN"),
        ("titan", "host: titan\ncontainer: lab/evil\n", "runs the image lab/evil on titan"),
        (
            "rig",
            "host: titan\ncontainer: {image: lab/evil, user: 0, volumes: [/data]}\n",
            "runs the image lab/evil on titan as user 0 with the volumes /data",
        ),
        ("rig", "host: visited\ncontainer: lab/evil\n", "runs the image lab/evil on visited"),
        ("gpu.lab.example", "host: 10.6.6.6\n", "gpu.lab.example:22, the network address gpu.lab.example"),
        ("gpu.lab.example", "host: gpu.lab.example\nport: 2222\n", "gpu.lab.example:2222, not "),
        ("gpu.lab.example", "host: local\n", "names the local machine, not"),
        ("10.0.0.7", "host: 10.6.6.6\nhost_key: SHA256:" + "a" * 43 + "\n", "10.6.6.6:22, not "),
        ("localhost", "host: 10.6.6.6\n", "localhost in /etc/hosts"),
        ("visited", "host: 10.6.6.6\n", ".ssh/known_hosts"),
        ("hashed", "host: 10.6.6.6\nuser: root\n", "leads to root@10.6.6.6:22"),
        ("forwarded", "host: 10.6.6.6\n", ".ssh/known_hosts"),
    ],
)
def test_SE_13_a_host_file_of_a_project_is_refused_until_it_was_confirmed(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    write(tmp_path, text, f"hosts/{name}")
    host = load_host(name, tmp_path)
    for nobody in (None, Person(answer=False)):
        with pytest.raises(HostFileUntrusted, match=reason) as caught:
            require_trust(host, nobody)
        assert caught.value.exit_code is ExitCode.HOST_KEY and str(host.path) in caught.value.message
    user = Person(answer=True)
    require_trust(host, user)
    require_trust(host, user)
    require_trust(host, None)
    assert len(user.questions) == 1 and re.search(reason, user.questions[0])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpu.lab.example", "host: gpu.lab.example\ncard: 7.5\n"),
        ("visited", "host: visited\ncard: 7.5\n"),
        ("titan", "host: titan\ncard: titan-rtx\nworkdir: /data/me\n"),
        ("titan", "host: 10.0.0.1\nuser: me\n"),
        ("rig", "host: rig.example\nport: 2222\n"),
        ("rig", "host: rig.example\ncontainer: lab/torch\n"),
        ("local", "host: local\ncard: 7.5\n"),
        ("local", "host: local\nworkdir: ~/halfstep\n"),
    ],
)
def test_a_host_file_equivalent_to_the_alias_and_without_secrets_needs_no_confirmation(
    tmp_path: Path, name: str, text: str
) -> None:
    write(tmp_path, text, f"hosts/{name}")
    require_trust(load_host(name, tmp_path), None)


@pytest.mark.parametrize("text", ["host: 203.0.113.77\n", "host: 203.0.113.77\ncard: titan-rtx\n"])
def test_SE_a_file_that_needed_no_confirmation_is_not_one_that_the_user_confirmed(tmp_path: Path, text: str) -> None:
    write(tmp_path, f"{text}workdir: /data/other/me\n", "hosts/rig")
    for _ in range(2):
        require_trust(load_host("rig", tmp_path), None)
        assert not trusted_address(load_host("rig", tmp_path)).trusts_owners
    keep_trust(load_host("rig", tmp_path))
    assert trusted_address(load_host("rig", tmp_path)).trusts_owners


@dataclass(frozen=True)
class Other:
    """Another value of a setting of a host file. `neutral` settings change what runs on the machine, not the login."""

    text: str
    neutral: bool = False


SETTINGS = {
    "host": Other("10.6.6.6"),
    "port": Other("2222"),
    "user": Other("somebody"),
    "identity_file": Other("~/.ssh/other"),
    "known_hosts": Other("~/.ssh/other_hosts"),
    "host_key": Other("SHA256:" + "a" * 43),
    "proxy_jump": Other("[gate.example]"),
    "container": Other("lab/evil"),
    "secrets": Other("[HF_TOKEN]"),
    **dict.fromkeys(("workdir", "python"), Other("/data/me", neutral=True)),
    "gpus": Other("[0]", neutral=True),
    "address": Other("10.0.0.9", neutral=True),
    "card": Other("7.5", neutral=True),
    "scheduler": Other("slurm", neutral=True),
    "slurm": Other("{partition: gpu}\nscheduler: slurm", neutral=True),
    "env": Other("{A: b}", neutral=True),
}


def test_SE_13_the_table_of_settings_is_complete() -> None:
    assert set(SETTINGS) == set(HostConfig.model_fields)


@pytest.mark.parametrize("key", SETTINGS)
def test_SE_13_every_setting_that_changes_the_login_to_an_alias_is_confirmed(tmp_path: Path, key: str) -> None:
    other = SETTINGS[key]
    write(tmp_path, f"{'' if key == 'host' else 'host: titan'}\n{key}: {other.text}\n", "hosts/titan")
    host = load_host("titan", tmp_path)
    if other.neutral:
        require_trust(host, None)
    else:
        with pytest.raises(HostFileUntrusted):
            require_trust(host, None)


@pytest.mark.parametrize("file", ["host: titan\n", "host: titan\nidentity_file: ~/.ssh/mine\n"])
def test_a_host_file_with_the_key_of_the_alias_needs_no_confirmation(tmp_path: Path, file: str) -> None:
    (tmp_path / "ssh").write_text(f"{ALIAS}  IdentityFile ~/.ssh/mine\n  IdentitiesOnly yes\n")
    write(tmp_path, file, "hosts/titan")
    require_trust(load_host("titan", tmp_path), None)
    write(tmp_path, "host: 10.0.0.1\nuser: me\n", "hosts/titan")
    with pytest.raises(HostFileUntrusted, match=r"logs in to me@10\.0\.0\.1:22 with other keys, not with those of"):
        require_trust(load_host("titan", tmp_path), None)


def test_a_confirmation_under_older_rules_is_asked_for_again(tmp_path: Path) -> None:
    path = write(tmp_path, "host: local\nworkdir: ~/demo/.wd\n", "hosts/local")
    values = json.dumps({"host": "local", "workdir": "~/demo/.wd"}, sort_keys=True, separators=(",", ":"))
    keep_consent(trusted_hosts(os.environ), f"{hashlib.sha256(values.encode()).hexdigest()} {path}")
    with pytest.raises(HostFileUntrusted):
        require_trust(load_host("local", tmp_path), None)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("rig", "host: titan\n", "reaches titan of your ~/.ssh/config"),
        ("rig", "host: visited\npython: planted\n", "reaches visited of .*known_hosts"),
        ("rig", "host: 10.6.6.6\nproxy_jump: [me@hashed:2222]\n", "reaches hashed of .*known_hosts"),
        *(("rig", f"host: {name!r}\nport: 2222\n", "the local machine as") for name in LOOPBACK),
        *(("rig", f"host: {name!r}\n", "reaches .* of .*known_hosts") for name in SAME_ADDRESS),
        ("rig", "host: visited.\n", "reaches visited. of .*known_hosts"),
        ("rig", "host: hashed-port\nport: 2222\n", "reaches hashed-port of .*known_hosts"),
    ],
)
def test_a_terminal_is_asked_before_a_file_reaches_a_machine_of_the_user_under_another_name(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    write(tmp_path, text, f"hosts/{name}")
    host = load_host(name, tmp_path)
    require_trust(host, None)
    with pytest.raises(HostFileUntrusted, match=reason):
        require_trust(host, Person(answer=False))
    user = Person(answer=True)
    require_trust(host, user)
    require_trust(host, user)
    assert len(user.questions) == 1 and re.search(reason, user.questions[0])


def test_a_changed_file_must_be_confirmed_again_unless_only_comments_changed(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path), Person(answer=True))
    file.write_text("# the lab's\nsecrets: [HF_TOKEN]\nhost: rig.example\n")
    require_trust(load_host("rig", tmp_path), None)
    file.write_text("host: rig.example\nsecrets: [HF_TOKEN, WANDB_API_KEY]\n")
    with pytest.raises(HostFileUntrusted, match="WANDB_API_KEY"):
        require_trust(load_host("rig", tmp_path), None)


def test_a_confirmation_does_not_hold_for_a_clone_that_links_to_the_confirmed_file(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", "host: rig.example\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path / "mine"), Person(answer=True))
    cloned = tmp_path / "cloned" / mine.relative_to(tmp_path / "mine")
    cloned.parent.mkdir(parents=True)
    cloned.symlink_to(mine)
    with pytest.raises(HostFileUntrusted):
        require_trust(load_host("rig", tmp_path / "cloned"), None)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("titan", "host: titan\ncontainer: {image: lab/evil, user: 0}\n", "runs the image lab/evil on titan as user 0"),
        ("visited", "host: visited\ncontainer: lab/evil\n", "runs the image lab/evil on visited"),
        (
            "rig",
            "host: rig.example\nproxy_jump: [titan]\ncontainer: lab/evil\n",
            "runs the image lab/evil on rig.example",
        ),
    ],
)
def test_SE_an_image_on_the_users_machine_is_confirmed_also_if_the_host_file_was_given_by_its_path(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    file = write(tmp_path, text, f"hosts/{name}")
    for argument in (str(file), name):
        with pytest.raises(HostFileUntrusted, match=reason):
            require_trust(load_host(argument, tmp_path), None)


PINNED = "SHA256:" + "A" * 43


@pytest.mark.parametrize("spelling", ["titan", "configs/hosts/titan.yaml", "../p/configs/hosts/titan.yaml"])
@pytest.mark.parametrize(
    "text",
    [
        f"host_key: {PINNED}\n",
        "known_hosts: configs/known_hosts\n",
        "proxy_jump: [evil.example]\n",
        "user: other\n",
        f"port: 22921\nhost_key: {PINNED}\n",
    ],
)
def test_SE_a_redirection_of_the_users_machine_is_confirmed_for_every_spelling_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, text: str
) -> None:
    project = tmp_path / "p"
    write(project, f"host: titan\n{text}", "hosts/titan")
    monkeypatch.chdir(project)
    for argument in (spelling, "titan"):
        with pytest.raises(HostFileUntrusted, match="titan"):
            require_trust(load_host(argument, project), None)


@pytest.mark.parametrize(("name", "port"), [("hashed-port", 2222), ("forwarded", 2222), ("hashed", 22)])
@pytest.mark.parametrize("given_as_path", [False, True])
def test_SE_a_machine_that_known_hosts_lists_with_a_port_is_recognised_by_the_port_of_the_file(
    tmp_path: Path, name: str, port: int, given_as_path: bool
) -> None:
    file = write(tmp_path, f"host: {name}\nport: {port}\nhost_key: {PINNED}\n", f"hosts/{name}")
    with pytest.raises(HostFileUntrusted, match=name):
        require_trust(load_host(str(file) if given_as_path else name, tmp_path), None)


def test_SE_a_file_that_was_used_by_its_path_is_not_confirmed_for_its_name(tmp_path: Path) -> None:
    file = write(tmp_path, "host: 10.6.6.6\n", "hosts/gpu.lab.example")
    for _ in range(2):
        require_trust(load_host(str(file), tmp_path), None)
    with pytest.raises(HostFileUntrusted, match=r"the network address gpu\.lab\.example"):
        require_trust(load_host("gpu.lab.example", tmp_path), None)


def test_SE_a_file_that_was_used_before_its_name_became_an_alias_is_confirmed(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\n", "hosts/rig")
    for argument in ("rig", str(file)):
        require_trust(load_host(argument, tmp_path), None)
    (tmp_path / "ssh").write_text(f"{ALIAS}Host rig\n  HostName 10.0.0.2\n")
    for argument in ("rig", str(file)):
        with pytest.raises(HostFileUntrusted, match=r"rig\.example"):
            require_trust(load_host(argument, tmp_path), None)


def test_a_host_file_given_by_its_path_without_a_redirection_needs_no_confirmation(tmp_path: Path) -> None:
    for name in ("titan", "visited", "hashed"):
        file = write(tmp_path, f"host: {name}\ncard: titan-rtx\n", f"hosts/{name}")
        require_trust(load_host(str(file), tmp_path), Person(answer=False))


def test_SE_a_gateway_with_the_name_of_the_file_is_confirmed_at_a_terminal(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\nproxy_jump: [visited]\n", "hosts/visited")
    person = Person(answer=True)
    require_trust(load_host(str(file), tmp_path), person)
    assert len(person.questions) == 1 and "visited" in person.questions[0]


def test_the_confirmation_is_stored_outside_of_the_project(tmp_path: Path) -> None:
    for project in ("mine", "cloned"):
        write(tmp_path / project, "host: rig.example\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path / "mine"), Person(answer=True))
    assert not list(tmp_path.rglob(".halfstep"))
    kept = trusted_hosts(os.environ)
    assert kept.stat().st_mode & 0o777 == 0o600 and "mine" in kept.read_text()
    with pytest.raises(HostFileUntrusted):
        require_trust(load_host("rig", tmp_path / "cloned"), None)


def test_a_file_that_was_used_before_its_host_key_was_accepted_needs_no_confirmation_afterwards(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path), None)
    known = tmp_path / "home/.ssh/known_hosts"
    known.write_text(known.read_text().replace("visited", "visited,rig.example"))
    require_trust(load_host("rig", tmp_path), None)
    file.write_text("host: rig.example\npython: tools/python\n")
    with pytest.raises(HostFileUntrusted, match=r"rig\.example"):
        require_trust(load_host("rig", tmp_path), Person(answer=False))
