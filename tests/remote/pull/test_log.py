"""A job's output is pulled from an offset on; its last lines can be read without the rest."""

from __future__ import annotations

import pytest

from remote.protocol.lines import LineCollapser
from remote.protocol.text import safe_text
from remote.pull.log import pull_log, read_log
from remote.pull.report import PulledState


def test_only_new_output_is_transferred(box):
    box.log.write_bytes(b"one\n")
    pull_log(box.host, box.key, box.name, 1, box.mirror)
    with box.log.open("ab") as file:
        file.write(b"\xff\x1b[31mtwo\r")

    pulled = pull_log(box.host, box.key, box.name, 1, box.mirror)

    assert pulled.path == box.mirror / "jobs" / "1" / "output.log"
    assert pulled.path.read_bytes() == box.log.read_bytes()
    assert (pulled.state, pulled.added_bytes) == (PulledState.WHOLE, 10)


def test_a_job_without_output_has_an_empty_file(box):
    box.log.write_bytes(b"")
    pull_log(box.host, box.key, box.name, 1, box.mirror)
    assert (box.mirror / "jobs" / "1" / "output.log").read_bytes() == b""


def test_a_job_that_has_not_begun_has_no_output_and_its_log_is_no_error(box):
    seen = []
    assert read_log(box.host, box.key, box.name, seen.append, lines=3)["size"] == 0
    assert seen == []
    box.log.write_bytes(b"one\n")
    pull_log(box.host, box.key, box.name, 1, box.mirror)
    box.log.unlink()
    assert pull_log(box.host, box.key, box.name, 1, box.mirror).path.read_bytes() == b"one\n", "nothing local is lost"


def test_a_shortened_log_continues_under_a_new_name(box):
    box.log.write_bytes(b"a long first life\n")
    first = pull_log(box.host, box.key, box.name, 1, box.mirror)
    box.log.write_bytes(b"again\n")

    second = pull_log(box.host, box.key, box.name, 1, box.mirror)

    assert first.path.read_bytes() == b"a long first life\n"
    assert second.path.read_bytes() == b"again\n"


def test_BI_55_hostile_output_is_kept_unchanged_and_escaped_on_the_screen(box):
    hostile = (
        b"\x1b[2J\x1b]52;c;eA==\x07\x1b]8;;http://x\x07link 10%\r 99%\r100% \xe2\x80\xae\xff\n" + b"x" * 10_000_000
    )
    box.log.write_bytes(hostile)
    kept = pull_log(box.host, box.key, box.name, 1, box.mirror).path

    lines = LineCollapser().feed(kept.read_bytes().decode("utf-8", "backslashreplace"), final=True)
    shown = safe_text("".join(lines))

    assert kept.read_bytes() == hostile
    assert not {character for character in shown if character < " " and character != "\n"}
    assert "\u202e" not in shown
    assert shown.startswith("100% ")
    assert len(shown) < 5000


TEXT = b"".join(b"line %06d\n" % number for number in range(20_000))


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (TEXT, 0, b""),
        (TEXT, 1, TEXT[-12:]),
        (TEXT, 10_000, TEXT[120_000:]),
        (TEXT, 10**6, TEXT),
        (b"no newline", 1, b"no newline"),
        (b"a\nb", 1, b"b"),
        (b"a\nb\n\n", 2, b"b\n\n"),
        (b"", 5, b""),
    ],
)
def test_the_last_lines_are_counted_as_tail_counts_them(box, text, lines, expected):
    box.log.write_bytes(text)
    found = bytearray()
    answer = read_log(box.host, box.key, box.name, found.extend, lines=lines)
    assert bytes(found) == expected
    assert answer["job"] == 1


def test_the_newest_job_is_the_one_with_the_highest_number(box):
    for number in (2, 9, 10):
        folder = box.run / "jobs" / str(number)
        folder.mkdir()
        (folder / "output.log").write_text(f"job {number}")
    found = bytearray()
    read_log(box.host, box.key, box.name, found.extend)
    assert found == b"job 10"
