"""A value that was passed to `hide` appears in no message of a host."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator

import pytest

from pipeline.diagnosis.diagnose import diagnose_log
from pipeline.runs.host_changes import report_event
from remote.errors import Garbled, RemoteFault
from remote.host import read_answer
from remote.link.answers import read_result
from remote.protocol import hidden
from remote.protocol.events import parse_event
from remote.protocol.findings import Finding
from remote.protocol.frames import pack_json
from remote.protocol.hidden import hide, mask, without_hidden
from remote.protocol.jobs import JobNews, StartAnswer, WatchNote
from remote.protocol.machine import Interpreter
from tests.lab.fake_host import FakeHost
from tests.remote.link.test_answers import reader_of
from tests.remote.protocol.test_events import event

SECRET = "correct horse\tbattery"


@pytest.fixture(autouse=True)
def hidden_secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hidden, "_values", set())
    hide([SECRET, "", "short"])
    yield


def test_SE_18_a_secret_is_replaced_in_every_message_of_an_answer() -> None:
    note = {"check": "loss-rising", "severity": "warning", "message": f"a {SECRET} b", "step": 1}
    result = {"exit": 1, "reason": f"refused {SECRET}"}
    data = {"number": 1, "state": "failed", "result": result, "watched": [note], "waits": SECRET}
    news = read_answer(JobNews, FakeHost(), data)
    finding = {"check": "command-failed", "severity": "error", "message": f"one\n{SECRET}"}
    assert news.result is not None
    texts = (news.watched[0].message, news.result.reason, news.waits, read_answer(Finding, FakeHost(), finding).message)
    assert texts == ("a *** b", "refused ***", "***", "one\n***")
    assert read_answer(WatchNote, FakeHost(), {**note, "message": "a short word"}).message == "a short word"


def test_SE_18_a_secret_is_replaced_in_an_error_of_the_host_and_in_a_diagnosis() -> None:
    error = {"kind": "busy", "message": f"no {SECRET}", "where": SECRET, "exit_code": 60}
    with pytest.raises(RemoteFault) as caught:
        read_result(reader_of(pack_json({"ok": False, "error": error})), 1.0)
    assert (caught.value.message, caught.value.where) == ("no ***", "***")
    [one] = diagnose_log(f"Traceback (most recent call last):\nOddError: login with {SECRET} failed\n")
    assert SECRET not in repr(one) and "***" in one.message


def test_SE_18_a_secret_is_replaced_before_a_long_line_is_cut_and_in_frames_and_names() -> None:
    hide(["correct-horse"])
    frame = 'Traceback (most recent call last):\n  File "/data/correct-horse/train.py", line 3, in correct-horse\n  x\n'
    for text in (f"{'x' * 390} correct-horse", f"{frame}OddError: {'x' * 390} correct-horse"):
        assert all("correct" not in repr(one) for one in diagnose_log(f"{text}\nOddError: failed\n"))
    [one] = diagnose_log(f"{frame}OddError: failed\n")
    assert one.frame is not None and (one.frame.path, one.frame.function) == ("/data/***/train.py", "***")


def test_a_longer_secret_is_replaced_before_one_that_is_its_prefix() -> None:
    hide(["correct horse\tbattery staple"])
    assert without_hidden("correct horse\tbattery staple correct horse\tbattery") == "*** ***"


class Notes:
    """The notes and details that a listener receives."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str, command: str = "") -> None:
        self.texts.append(text)

    def detail(self, text: str, done: float | None = None, total: float | None = None) -> None:
        self.texts.append(text)


def test_SE_18_a_secret_is_replaced_in_events_and_free_texts_and_kept_in_paths() -> None:
    listener = Notes()
    report_event({"note": f"pip: Looking in indexes: https://u:{SECRET}@index"}, listener)  # type: ignore[arg-type]
    report_event({"doing": f"pip {SECRET}"}, listener)  # type: ignore[arg-type]
    assert listener.texts == ["pip: Looking in indexes: https://u:***@index", "pip ***"]
    hide(["/home/teacher"])
    broken = read_answer(Interpreter, FakeHost(), {"path": "/home/teacher/bin/python", "error": "no /home/teacher"})
    assert (broken.path, broken.error) == ("/home/teacher/bin/python", "no ***")


def test_SE_18_a_secret_with_colours_in_it_is_replaced() -> None:
    hide(["correct-horse"])
    token = "hf_abcdefgh\x1b[0mijklmnopqrstuv"
    [one] = diagnose_log(f"Traceback (most recent call last):\nOddError: correct\x1b[31m-horse {token} failed\n")
    assert one.message == "OddError: *** *** failed"


def test_SE_18_a_secret_is_replaced_in_the_name_of_a_curve() -> None:
    hide(["correct-horse"])
    [point] = parse_event(event(tag="loss/correct-horse", simple_value=1.0))
    assert point.tag == "loss/***"


def test_SE_18_a_secret_is_replaced_in_the_error_for_a_malformed_answer() -> None:
    with pytest.raises(Garbled) as caught:
        read_answer(StartAnswer, FakeHost(), {"run": "r", "number": 1, "state": "correct-horse", "fresh": True})
    assert "correct-horse" in caught.value.message
    hide(["correct-horse"])
    with pytest.raises(Garbled) as caught:
        read_answer(StartAnswer, FakeHost(), {"run": "r", "number": 1, "state": "correct-horse", "fresh": True})
    assert "correct-horse" not in caught.value.message


SECRETS = [
    "p4'sswo/rd-x",
    "pa$$w0rd!x",
    'ab"cd\\ef12',
    "tök€n-1234567",
    "tok en 12345",
    "o'ne\"two\\3",
    "pä$$wörd 'x\"/y",
]
QUOTES: dict[str, Callable[[str], str]] = {
    "shlex": shlex.quote,
    "single": lambda value: "'" + value.replace("'", "'\\''") + "'",
    "ansi-c": lambda value: "$'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'",
    "bytes": lambda value: repr(value.encode()),
    "ascii": ascii,
    "json": lambda value: json.dumps(value, ensure_ascii=False),
    "json in capitals": lambda value: re.sub(
        r"\\u[0-9a-f]{4}", lambda one: "\\u" + one[0][2:].upper(), json.dumps(value)
    ),
    "letters in json in json": lambda value: json.dumps(json.dumps(value, ensure_ascii=False), ensure_ascii=False),
    "json in json": lambda value: json.dumps(json.dumps(value)),
    "printf %q": lambda value: re.sub(r"([ $!'\"\\])", r"\\\1", value),
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("quote", QUOTES.values(), ids=QUOTES.keys())
def test_a_secret_that_a_shell_or_python_quoted_is_replaced(quote: Callable[[str], str], secret: str) -> None:
    assert re.fullmatch(r"""b?[\\$'"]*\*\*\*[\\'"]*""", mask(quote(secret), [secret]))


def test_a_secret_in_the_trace_of_a_shell_is_replaced_in_an_error_of_the_host() -> None:
    hide(["p4'sswo rd-x"])
    error = {"kind": "busy", "message": "+ curl -H 'p4'\"'\"'sswo rd-x' p4\\'sswo\\ rd-x", "where": "", "exit_code": 60}
    with pytest.raises(RemoteFault) as caught:
        read_result(reader_of(pack_json({"ok": False, "error": error})), 1.0)
    assert caught.value.message == "+ curl -H '***' ***"
