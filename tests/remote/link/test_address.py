"""Valid and invalid hosts, users and ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.errors import BadUsage
from remote.link import hosts_file
from remote.link.address import Address, Hop, is_this_machine, parse_hop
from remote.link.container import Container
from remote.link.reach import open_host
from remote.protocol.exits import ExitCode


@pytest.mark.parametrize("host", ["-oProxyCommand=touch canary", "-l", "--", "-"])
def test_BI_20_a_host_that_is_an_option_is_refused_and_nothing_runs(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadUsage, match="invalid host") as refused:
        open_host(Address("titan", host)).probe(["true"])
    assert refused.value.exit_code is ExitCode.USAGE
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "host",
    ["a;b", "$(x)", "`x`", "a\nb", "a b", "a\0b", "a|b", "a>b", "a'b", 'a"b', "a&b", "a/b", "a\\b", "", "a%h", "u@h"],
)
def test_BI_21_a_host_with_characters_of_a_shell_is_refused(host: str) -> None:
    with pytest.raises(BadUsage, match="invalid host") as refused:
        Address("titan", host)
    assert refused.value.where == "host"


@pytest.mark.parametrize("user", ["a'b", "a b", "%u", "-x", "a;b", "$(x)", "", "a\nb", "x" * 33, "a@b"])
def test_BI_22_a_user_that_is_no_login_name_is_refused(user: str) -> None:
    with pytest.raises(BadUsage, match="invalid user"):
        Address("titan", "titan.lab", user=user)


@pytest.mark.parametrize("port", [0, 65536, -1, 22.5, "22", True])
def test_BI_23_a_port_out_of_range_is_refused(port: object) -> None:
    with pytest.raises(BadUsage, match="invalid port"):
        Address("titan", "titan.lab", port=port)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["x" * 300, "münchen.de", "fe80::1%", "::1]", "[::1", "1::2::zz"])
def test_BI_24_long_and_foreign_names_are_refused(host: str) -> None:
    with pytest.raises(BadUsage, match="invalid host"):
        Address("titan", host)


def test_BI_24_the_error_for_a_name_outside_ascii_shows_its_xn_form() -> None:
    with pytest.raises(BadUsage, match="xn--"):
        Address("titan", "münchen.de")


@pytest.mark.parametrize(
    ("host", "bare"),
    [
        ("titan", "titan"),
        ("titan.lab", "titan.lab"),
        ("my_alias-2", "my_alias-2"),
        ("192.0.2.7", "192.0.2.7"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("::1", "::1"),
        ("[2001:db8::7]", "2001:db8::7"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
    ],
)
def test_BI_24_names_aliases_and_addresses_are_accepted(host: str, bare: str) -> None:
    assert Address("titan", host).host == bare


@pytest.mark.parametrize(
    ("text", "hop"),
    [
        ("gateway", Hop("gateway")),
        ("me@gateway:2222", Hop("gateway", "me", 2222)),
        ("[::1]:22", Hop("::1", None, 22)),
        ("me@[2001:db8::1]", Hop("2001:db8::1", "me")),
        ("2001:db8::1", Hop("2001:db8::1")),
        ("ssh://me@gateway:22", Hop("gateway", "me", 22)),
    ],
)
def test_a_gateway_has_the_syntax_of_proxyjump(text: str, hop: Hop) -> None:
    assert parse_hop(text) == hop


@pytest.mark.parametrize(
    "text", ["a b", "me@", "gateway:0", "gateway:x", "me@-x", "a'b@gateway", "gateway:99999", "[::1]:\xb2"]
)
def test_an_invalid_gateway_is_refused(text: str) -> None:
    with pytest.raises(BadUsage):
        Address("titan", "titan.lab", proxy_jump=(text,))


@pytest.mark.parametrize("text", [f"gateway:{'9' * 5000}", f"me@[::1]:{'1' * 5000}", "ssh://gateway:\u0663"])
def test_SE_a_gateway_with_a_port_of_any_length_is_refused_briefly(text: str) -> None:
    with pytest.raises(BadUsage, match="invalid port") as caught:
        parse_hop(text)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("key", ["SHA256:abc", "MD5:00:11", "x", "SHA256:" + "!" * 43])
def test_a_pinned_host_key_must_be_a_sha256_fingerprint(key: str) -> None:
    with pytest.raises(BadUsage, match="fingerprint"):
        Address("titan", "titan.lab", host_key=key)


@pytest.mark.parametrize("image", ["-v/:/", "a b", "$(x)", "'", ""])
def test_a_container_that_is_no_image_name_is_refused(image: str) -> None:
    with pytest.raises(BadUsage, match="container"):
        Container(image)


HOSTS = """127.0.0.1 localhost
#127.0.0.1 commented
127.0.1.1\tbox.lab.example\tBox # note note2
::1 six
10.255.255.1 other both
127.0.0.9 both
not-an-address broken
"""


@pytest.mark.parametrize(
    ("name", "this"),
    [
        *((name, True) for name in ("box", "BOX.lab.example", "box.", "six", "both", "localhost", "127.1")),
        *((name, False) for name in ("other", "commented", "note2", "broken", "titan", "lab.example")),
    ],
)
def test_SE_a_name_is_this_machine_if_the_hosts_file_lists_it_for_an_own_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, this: bool
) -> None:
    (tmp_path / "hosts").write_text(HOSTS)
    monkeypatch.setattr(hosts_file, "HOSTS_FILE", tmp_path / "hosts")
    assert is_this_machine(name) is this
    monkeypatch.setattr(hosts_file, "HOSTS_FILE", tmp_path / "missing")
    assert is_this_machine(name) is (name in ("localhost", "127.1"))
