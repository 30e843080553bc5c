"""INI nodes: only values that `configparser` reads from one line are nodes."""

import time
from configparser import RawConfigParser

import pytest

from fixers.sources.ini_nodes import LARGEST_BYTES, read_ini
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


@pytest.mark.parametrize("line", [b"a = b\n", b"a\n", b"# a\n"])
def test_SE_a_file_that_is_too_large_is_refused_at_once(line: bytes) -> None:
    began = time.process_time()
    with pytest.raises(Unparsable, match="too large"):
        read_ini(b"[a]\n" + line * (LARGEST_BYTES // len(line) + 1))
    assert time.process_time() - began < 1


def test_SE_lines_without_a_value_are_read_in_linear_time() -> None:
    began = time.process_time()
    assert read_ini(b"[a]\n" + b"a\n" * 50_000) == read_ini(b"")
    assert time.process_time() - began < 10  # minutes if the key is searched beyond its line
