"""INI nodes: only values that `configparser` reads from one line are nodes."""

from configparser import RawConfigParser

import pytest

from fixers.sources.ini_nodes import read_ini
from fixers.sources.nodes import Scalar, walk
from fixers.sources.unparsable import Unparsable

TEXT = """; a comment
# another = one
[model]
Name = flash_attention_2
quoted: "bfloat16"
long = first
    second = bf16
empty =
alone
# hidden = 1
url = http://x:1/?a=b  ; not a comment
[model.two]
name=x
"""


def test_every_value_is_that_of_configparser_and_replacing_it_changes_nothing_else() -> None:
    data = TEXT.replace("\n", "\r\n").encode()
    parser = _parsed(data)
    seen = {}
    for path, _, value in walk(read_ini(data)):
        if not isinstance(value, Scalar):
            continue
        section, key = path
        seen[section, key] = value.text
        after = _parsed(data[: value.span.start] + b"!!" + data[value.span.end :])
        parser.set(section, key, "!!")
        assert {name: dict(after[name]) for name in after.sections()} == {
            name: dict(parser[name]) for name in parser.sections()
        }
        parser = _parsed(data)
    assert seen == {
        ("model", "name"): "flash_attention_2",
        ("model", "quoted"): "bfloat16",
        ("model", "empty"): "",
        ("model", "url"): "http://x:1/?a=b  ; not a comment",
        ("model.two", "name"): "x",
    }


def _parsed(data: bytes) -> RawConfigParser:
    parser = RawConfigParser(allow_no_value=True)
    parser.read_string(data.decode())
    return parser


@pytest.mark.parametrize("data", [b"key = value\n", b"[a]\n=\n", b"[a]\nx = \xff\n"])
def test_what_configparser_refuses_is_refused(data: bytes) -> None:
    with pytest.raises(Unparsable):
        read_ini(data)
