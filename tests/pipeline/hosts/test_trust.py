"""SE-13: a host file that redirects a name, trains on the laptop or names secrets is confirmed before it is used."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from pipeline.config.hosts import load_host
from pipeline.hosts.trust import keep_trust, require_trust, trusted_address, trusted_hosts
from pipeline.records.consents import keep_consent
from remote.errors import BadUsage, HostFileUntrusted
from remote.protocol.exits import ExitCode
from tests.lab.answers import Person
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.ssh_home import ALIAS, ssh_home

__all__ = ["ssh_home"]


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
        (
            "titan",
            "host: 10.0.0.1\nuser: me\nidentity_file: planted\n",
            "with the key planted, not with the keys of the",
        ),
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
    for nobody in (None, Person(yes=False)):
        with pytest.raises(HostFileUntrusted, match=reason) as caught:
            require_trust(host, nobody)
        assert caught.value.exit_code is ExitCode.HOST_KEY and str(host.path) in caught.value.message
    user = Person(yes=True)
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


@pytest.mark.parametrize("rules", ["", "5 "])
def test_a_confirmation_under_older_rules_is_asked_for_again(tmp_path: Path, rules: str) -> None:
    path = write(tmp_path, "host: local\nworkdir: ~/demo/.wd\n", "hosts/local")
    values = rules + json.dumps({"host": "local", "workdir": "~/demo/.wd"}, sort_keys=True, separators=(",", ":"))
    keep_consent(trusted_hosts(os.environ), f"{hashlib.sha256(values.encode()).hexdigest()} {path}")
    with pytest.raises(HostFileUntrusted):
        require_trust(load_host("local", tmp_path), None)


def test_SE_a_confirmation_is_valid_only_for_the_reasons_that_its_question_stated(tmp_path: Path) -> None:
    text = (
        "host: rig.example\nsecrets: [HF_TOKEN]\ncontainer: {image: lab/evil, volumes: [~/.ssh]}\nworkdir: /data/me\n"
    )
    write(tmp_path, text, "hosts/rig")
    require_trust(load_host("rig", tmp_path), Person(yes=True))
    assert not trusted_address(load_host("rig", tmp_path)).trusts_owners, "the question did not state an owner"
    (tmp_path / "ssh").write_text(f"{ALIAS}Host rig.example\n  HostName 10.0.0.2\n")
    for nobody in (None, Person(yes=False)):
        with pytest.raises(
            HostFileUntrusted, match=r"runs the image lab/evil on rig\.example with the volumes ~/\.ssh"
        ):
            require_trust(load_host("rig", tmp_path), nobody)
    user = Person(yes=True)
    for prompter in (user, user, None):
        require_trust(load_host("rig", tmp_path), prompter)
    assert len(user.questions) == 1


def test_SE_secrets_and_a_machine_of_the_user_are_stated_in_one_question(tmp_path: Path) -> None:
    write(tmp_path, "host: titan\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    user = Person(yes=True)
    for prompter in (user, user, None):
        require_trust(load_host("rig", tmp_path), prompter)
    assert len(user.questions) == 1 and "HF_TOKEN" in user.questions[0]
    assert "reaches titan of your ~/.ssh/config" in user.questions[0]


@pytest.mark.parametrize("more", ["", "secrets: [HF_TOKEN]\n", "container: lab/torch\nproxy_jump: [visited]\n"])
def test_a_confirmed_file_is_not_asked_about_again_after_its_host_key_was_accepted(tmp_path: Path, more: str) -> None:
    write(tmp_path, f"host: rig.example\nworkdir: /data/me\n{more}", "hosts/rig")
    user = Person(yes=True)
    require_trust(load_host("rig", tmp_path), user)
    asked = len(user.questions)
    known = tmp_path / "home/.ssh/known_hosts"
    known.write_text(known.read_text().replace("visited", "visited,rig,rig.example"))
    for prompter in (user, None):
        require_trust(load_host("rig", tmp_path), prompter)
    assert len(user.questions) == asked == bool(more)


def test_a_changed_file_must_be_confirmed_again_unless_only_comments_changed(tmp_path: Path) -> None:
    file = write(tmp_path, "host: rig.example\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path), Person(yes=True))
    file.write_text("# the lab's\nsecrets: [HF_TOKEN]\nhost: rig.example\n")
    require_trust(load_host("rig", tmp_path), None)
    file.write_text("host: rig.example\nsecrets: [HF_TOKEN, WANDB_API_KEY]\n")
    with pytest.raises(HostFileUntrusted, match="WANDB_API_KEY"):
        require_trust(load_host("rig", tmp_path), None)


@pytest.mark.parametrize(
    ("linked", "error", "words"),
    [
        ("configs/hosts/rig.yaml", BadUsage, "outside of the project"),
        ("configs/hosts", BadUsage, "outside of the project"),
        ("configs", HostFileUntrusted, "HF_TOKEN"),
    ],
)
def test_a_confirmation_does_not_hold_for_a_clone_that_links_to_the_confirmed_file(
    tmp_path: Path, linked: str, error: type[Exception], words: str
) -> None:
    write(tmp_path / "mine", "host: rig.example\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path / "mine"), Person(yes=True))
    cloned = tmp_path / "cloned" / linked
    cloned.parent.mkdir(parents=True)
    cloned.symlink_to(tmp_path / "mine" / linked)
    with pytest.raises(error, match=words):
        require_trust(load_host("rig", tmp_path / "cloned"), None)


def test_the_confirmation_is_stored_outside_of_the_project(tmp_path: Path) -> None:
    for project in ("mine", "cloned"):
        write(tmp_path / project, "host: rig.example\nsecrets: [HF_TOKEN]\n", "hosts/rig")
    require_trust(load_host("rig", tmp_path / "mine"), Person(yes=True))
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
        require_trust(load_host("rig", tmp_path), Person(yes=False))
