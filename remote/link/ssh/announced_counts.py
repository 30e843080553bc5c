"""Refuse messages that announce more entries than they contain: paramiko would build a list of the announced length."""

from __future__ import annotations

from paramiko.message import Message

from remote.protocol.dataclass import dataclass

EXT_INFO, INFO_REQUEST = 7, 60


@dataclass(frozen=True)
class CountedList:
    """The list at the end of a message: the strings before its count, and the smallest size of an entry."""

    strings_before: int
    min_entry_bytes: int
    entries: str


# EXT_INFO (RFC 8308, 2.3) has a name and a value per extension, the questions of keyboard-interactive (RFC 4256, 3.2) a
# text and a Boolean per prompt. The other messages with the number 60 end before the count, which is then read as 0.
COUNTED_LISTS = {
    EXT_INFO: CountedList(0, 8, "extensions"),
    INFO_REQUEST: CountedList(3, 5, "prompts"),
}


def judge_announced_count(kind: int, body: bytes) -> str:
    """Return why the message is malformed, or "" if the entries that it announces fit into the rest of its body."""
    counted = COUNTED_LISTS.get(kind)
    if counted is None:
        return ""
    message = Message(body)
    for _ in range(counted.strings_before):
        message.get_string()
    count, remaining = message.get_int(), len(message.get_remainder())
    if count * counted.min_entry_bytes <= remaining:
        return ""
    return f"the server sent a malformed message: it announces {count} {counted.entries} in {remaining} bytes"
