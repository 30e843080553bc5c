"""Hosts written as `user@address:port` and as the ssh commands that consoles print."""

from __future__ import annotations

import getpass
import shlex
import subprocess
from pathlib import Path

import pytest

from pipeline.config.destination import is_destination, parse_destination
from pipeline.config.hosts import load_host
from pipeline.hosts.address import address_of
from remote.errors import BadUsage

HERE = Path("/home/me/project")
BOX = {"host": "203.0.113.9", "port": 12345, "user": "root"}


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("root@203.0.113.9:12345", "root@203.0.113.9:12345", BOX),
        ("ssh root@203.0.113.9 -p 12345", "root@203.0.113.9:12345", BOX),
        (" $ ssh root@203.0.113.9 -p 12345\n", "root@203.0.113.9:12345", BOX),
        ("ssh -p12345 -l root 203.0.113.9", "root@203.0.113.9:12345", BOX),
        ("ssh -o Port=12345 -o 'User root' 203.0.113.9", "root@203.0.113.9:12345", BOX),
        ("ssh -o ProxyJump=none root@203.0.113.9 -p 12345", "root@203.0.113.9:12345", BOX),
        ("ssh ssh://root@203.0.113.9:12345", "root@203.0.113.9:12345", BOX),
        ("ssh://root@203.0.113.9:12345/", "root@203.0.113.9:12345", BOX),
        (
            "ssh root@203.0.113.9 -p 12345 -i ~/.ssh/id",
            "root@203.0.113.9:12345",
            {**BOX, "identity_file": "~/.ssh/id"},
        ),
        ("ssh -p 12345 root@203.0.113.9 -L 8080:localhost:8080", "root@203.0.113.9:12345", BOX),
        (
            "ssh -tvAo StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -p 12345 root@203.0.113.9",
            "root@203.0.113.9:12345",
            BOX,
        ),
        (
            'ssh -i "my key.pem" ubuntu@ec2-203-0-113-9.example',
            "ubuntu@ec2-203-0-113-9.example",
            {"host": "ec2-203-0-113-9.example", "user": "ubuntu", "identity_file": str(HERE / "my key.pem")},
        ),
        (
            """ssh -o 'IdentityFile="my key"' -o 'UserKnownHostsFile "~/my hosts"' lab""",
            "lab",
            {"host": "lab", "identity_file": str(HERE / "my key"), "known_hosts": "~/my hosts"},
        ),
        (
            "ssh pod-64411@ssh.gateway -i $HOME/.ssh/id",
            "pod-64411@ssh.gateway",
            {"host": "ssh.gateway", "user": "pod-64411", "identity_file": "~/.ssh/id"},
        ),
        (
            "ssh -J me@gateway:2222,inner lab",
            "lab",
            {"host": "lab", "proxy_jump": ["me@gateway:2222", "inner"]},
        ),
        (
            "root@[2001:db8::1]:2222",
            "root@[2001:db8::1]:2222",
            {"host": "2001:db8::1", "port": 2222, "user": "root"},
        ),
        ("[2001:db8::1]:2222", "[2001:db8::1]:2222", {"host": "2001:db8::1", "port": 2222}),
        ("root@2001:db8::1", "root@2001:db8::1", {"host": "2001:db8::1", "user": "root"}),
        ("titan:2222", "titan:2222", {"host": "titan", "port": 2222}),
        ("ssh -J inner -o ProxyJump=none lab", "lab", {"host": "lab", "proxy_jump": ["inner"]}),
        ("ssh -o ProxyJump=NONE -o ProxyJump=inner lab", "lab", {"host": "lab"}),
    ],
)
def test_the_ssh_command_of_a_console_is_parsed_into_host_port_user_and_key(
    text: str, name: str, values: dict[str, object]
) -> None:
    assert is_destination(text)
    found = parse_destination(text)
    assert (found.name, found.values(HERE)) == (name, values)


@pytest.mark.parametrize(
    "command",
    [
        "ssh -l a b@h",
        "ssh b@h -l a",
        "ssh -l a -l b h",
        "ssh -o User=a b@h",
        "ssh b@h -o User=a",
        "ssh -l a -o User=c b@h -p 2",
        "ssh -p 1 ssh://b@h:2",
        "ssh ssh://b@h:2 -p 1",
        "ssh ssh://h:2 -o Port=1 -l a",
        "ssh -o Port=1 -p 3 ssh://h:2",
        "ssh -l a -p 1 ssh://h",
        "ssh -p 22 ssh://b@h:2",
        "ssh -o Hostname=z -o User=a b@h",
    ],
)
def test_the_first_user_and_port_of_a_command_are_used_as_by_ssh(command: str) -> None:
    hop = parse_destination(command).hop
    shown = subprocess.run(
        ["ssh", "-F", "none", "-G", *command.split()[1:]], capture_output=True, text=True, check=True
    )
    settings = dict(line.split(" ", 1) for line in shown.stdout.splitlines())
    assert (hop.host, hop.port or 22) == (settings["hostname"], int(settings["port"]))
    assert (hop.user or getpass.getuser()) == settings["user"]


@pytest.mark.parametrize("first", ["-J a", "-J a,b", "-J none", "-o ProxyJump=a", "-o ProxyJump=none", ""])
@pytest.mark.parametrize("second", ["-o ProxyJump=c", "-o ProxyJump=none", ""])
def test_the_first_gateways_of_a_command_are_used_as_by_ssh(first: str, second: str) -> None:
    asked = ["ssh", "-F", "none", "-G", *first.split(), "lab", *second.split()]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    by_ssh = next((line.partition(" ")[2] for line in shown if line.startswith("proxyjump ")), "")
    assert ",".join(parse_destination(f"ssh {first} lab {second}").proxy_jump) == by_ssh


@pytest.mark.parametrize(
    "words",
    [
        "HostName\t127.0.0.2",
        "HostName \t=\t127.0.0.2 \t",
        "hostname=127.0.0.2 # the second address",
        " = HostName 127.0.0.2",
        "\tPort\t2222",
        'Port="2222"',
        "User\rdan",
        "User\ndan",
        'User="dan"',
        "User = 'dan'",
        'User=da"n"',
        'USER "dan" #comment',
        "ProxyJump\tme@inner:2222",
        "ProxyJump = = inner",
        "ProxyJump=inner # the gateway",
    ],
)
def test_SE_the_words_of_a_setting_are_separated_and_unquoted_as_by_ssh(words: str) -> None:
    asked = ["ssh", "-F", "none", "-G", "-o", words, "lab"]
    shown = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    settings = dict(line.split(" ", 1) for line in shown.splitlines())
    found = parse_destination(shlex.join(["ssh", "-o", words, "lab"]))
    hop, jumps = found.hop, ",".join(found.proxy_jump)
    assert (hop.host, str(hop.port or 22)) == (settings["hostname"], settings["port"])
    assert (hop.user or getpass.getuser(), jumps) == (settings["user"], settings.get("proxyjump", ""))
    assert found != parse_destination("ssh lab")


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("UserKnownHostsFile\t~/a", "~/a"),
        ("UserKnownHostsFile = '/a b' # known", "/a b"),
        ("UserKnownHostsFile none", None),
    ],
)
def test_SE_the_known_hosts_of_a_setting_are_unquoted_as_by_ssh(words: str, known: str | None) -> None:
    assert parse_destination(shlex.join(["ssh", "-o", words, "lab"])).known_hosts == known


@pytest.mark.parametrize(
    "words",
    [
        "ProxyCommand\tnc other 22",
        "proxycommand = nc other 22",
        "=ProxyCommand nc other 22",
        '"ProxyCommand" nc other 22',
        'Proxy"Command" nc other 22',
        "HostKeyAlias\tother",
        "CanonicalizeHostname=yes",
        "CanonicalizeHostname\tno",
        "CanonicalDomains=example.org",
        "CanonicalizePermittedCNAMEs=*:*",
        "BindInterface=tun0",
        "User=",
        'User=""',
        "User=dan other",
        'User="dan',
        'User"dan"',
        "IdentityFile=my key",
        "",
    ],
)
def test_SE_a_setting_that_changes_the_machine_or_is_invalid_is_refused(words: str) -> None:
    with pytest.raises(BadUsage):
        parse_destination(shlex.join(["ssh", "-o", words, "lab"]))


@pytest.mark.parametrize(
    "words", ["ForwardAgent\tyes", "StrictHostKeyChecking = no", 'SetEnv A="b', "ServerAliveInterval"]
)
def test_SE_a_setting_that_changes_no_machine_is_ignored(words: str) -> None:
    found = parse_destination(shlex.join(["ssh", "-o", words, "lab"]))
    assert (found.name, found.ignored) == ("lab", (f"-o {words}",))


def test_a_user_before_the_host_replaces_the_user_in_it_and_a_later_one_does_not(tmp_path: Path) -> None:
    assert load_host("ssh -l me -p 1 ssh://you@lab:2", tmp_path).name == "me@lab:1"
    assert load_host("ssh ssh://you@lab:2 -l me -p 1", tmp_path).name == "you@lab:2"


@pytest.mark.parametrize("name", ["titan", "titan.lab", "10.0.0.1", "2001:db8::1", "local", "hosts/a@b.yaml", "./x:1"])
def test_names_addresses_and_paths_are_not_parsed_as_ssh_destinations(name: str) -> None:
    assert not is_destination(name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("root@host:port", "invalid port 'port'"),
        ("root@host:0", "invalid port 0"),
        ("ssh -p x root@host", "invalid port 'x'"),
        (f"ssh -p {'9' * 5000} root@host", f"invalid port '{'9' * 60}'"),
        (f"ssh -o Port={'9' * 5000} root@host", f"invalid port '{'9' * 60}'"),
        (f"root@host:{'9' * 5000}", f"invalid port '{'9' * 60}'"),
        ("ssh -p \xb2 root@host", "invalid port '\xb2'"),
        ("root@-oProxyCommand=x", "invalid host"),
        ("me;id@host", "invalid user"),
        ("ssh -p 22", "no host"),
        ("ssh root@host nvidia-smi", "command to run: nvidia-smi"),
        ("ssh root@host -i", "-i lacks its value"),
        ("ssh 'root@host", "invalid ssh command"),
        ("ssh -o ProxyCommand='cloud tunnel' root@host", "cannot be used here"),
        ("ssh -o 'UserKnownHostsFile ~/a ~/b' root@host", "several files: ~/a, ~/b"),
        ("""ssh -o 'UserKnownHostsFile "~/a' root@host""", "no closing quote"),
        ("ssh -F other root@host", "-F other cannot be used here"),
        ("gcloud compute ssh box --zone a", "gcloud does not name a host"),
    ],
)
def test_a_command_that_names_no_host_is_refused_with_the_reason(text: str, reason: str) -> None:
    assert is_destination(text)
    with pytest.raises(BadUsage) as refused:
        parse_destination(text)
    assert reason in refused.value.message and refused.value.where in ("host", "port", "user")


def test_a_host_is_loaded_from_an_ssh_command_and_keeps_one_name(tmp_path: Path) -> None:
    command = "ssh root@203.0.113.9 -p 12345 -i ~/.ssh/id"
    for text in (command, "root@203.0.113.9:12345"):
        host = load_host(text, tmp_path, ["host.workdir=/workspace/halfstep"])
        assert (host.name, host.argument, host.path) == ("root@203.0.113.9:12345", text, None)
        address = address_of(host)
        assert (address.host, address.port, address.user) == ("203.0.113.9", 12345, "root")
        assert (address.workdir, address.destination) == ("/workspace/halfstep", text)
    assert address_of(load_host(command, tmp_path)).identity_file == "~/.ssh/id"
