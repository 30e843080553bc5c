"""A server that announces more entries than a message contains: the connection ends before paramiko reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from paramiko.message import Message

from remote.errors import CannotConnect, HungUp
from remote.link.address import Address
from remote.link.ssh.announced_counts import EXT_INFO, INFO_REQUEST, judge_announced_count
from remote.link.ssh.starter import SshStarter
from tests.lab.answers import Person
from tests.lab.ssh_server import Account, paramiko_server

# paramiko reads this many entries within a second, so that the tests fail without the check instead of filling memory.
MANY = 50_000


def message(kind: int, *values: int | bool | bytes | str) -> Message:
    built = Message()
    built.add_byte(bytes([kind]))
    for value in values:
        if isinstance(value, bool):
            built.add_boolean(value)
        else:
            built.add_int(value) if isinstance(value, int) else built.add_string(value)
    return built


def judged(built: Message) -> str:
    data = built.asbytes()
    return judge_announced_count(data[0], data[1:])


TEXTS = ("title", "instructions", "")


@pytest.mark.parametrize(
    "built",
    [
        message(INFO_REQUEST, *TEXTS, 0),
        message(INFO_REQUEST, *TEXTS, 1, "Password: ", False),
        message(INFO_REQUEST, *TEXTS, 3, *(("", True) * 3)),
        message(INFO_REQUEST, "ssh-ed25519", b"the blob of an accepted key"),
        message(INFO_REQUEST, "Change your password: ", "en"),
        message(EXT_INFO, 0),
        message(EXT_INFO, 2, "server-sig-algs", "ssh-ed25519", "ping@openssh.com", "0"),
        message(EXT_INFO, 1, "", ""),
        message(94, 0xFFFFFFFF, b"data of a channel"),
    ],
)
def test_a_message_that_contains_what_it_announces_is_accepted(built: Message) -> None:
    assert judged(built) == ""


@pytest.mark.parametrize(
    "built",
    [
        message(INFO_REQUEST, *TEXTS, 0xFFFFFFFF),
        message(INFO_REQUEST, *TEXTS, 2, "", True),
        message(INFO_REQUEST, *TEXTS, 4, *(("", True) * 3)),
        message(EXT_INFO, 0xFFFFFFFF),
        message(EXT_INFO, 2, "", ""),
        message(EXT_INFO, 100, "server-sig-algs", "ssh-ed25519"),
    ],
)
def test_a_message_that_announces_more_than_it_contains_is_malformed(built: Message) -> None:
    assert "malformed message: it announces" in judged(built)


def announcing(kind: int, *before: str) -> Callable[[bytes], bytes]:
    """Return an edit of a server's messages: those of this kind have no entries, but announce `MANY`."""
    empty = message(kind, *before, MANY).asbytes()
    return lambda data: empty if data[0] == kind else data


@pytest.mark.parametrize("fast", [True, False])
def test_SE_09_an_announced_list_of_prompts_ends_the_connection_before_a_question_is_shown(
    fast: bool, tmp_path: Path
) -> None:
    account, person = Account(answers=("one",)), Person(secrets=["one"])
    with paramiko_server(tmp_path, account, announcing(INFO_REQUEST, *TEXTS)) as address:
        error = refused(address, fast, person)
    assert f"malformed message: it announces {MANY} prompts in 0 bytes" in error.message
    assert person.questions == []


@pytest.mark.parametrize("fast", [True, False])
def test_SE_09_an_announced_list_of_extensions_ends_the_connection(fast: bool, tmp_path: Path) -> None:
    with paramiko_server(tmp_path, Account(answers=("one",)), announcing(EXT_INFO)) as address:
        error = refused(address, fast, Person(secrets=["one"]))
    assert f"malformed message: it announces {MANY} extensions in 0 bytes" in error.message


def refused(address: Address, fast: bool, person: Person) -> CannotConnect:
    starter = SshStarter(address, prompter=person, fast=fast)
    with pytest.raises(CannotConnect) as caught:
        starter.start(["true"])
    starter.close()
    assert not isinstance(caught.value, HungUp)
    return caught.value
