"""Words of a shell script have exact byte ranges, and only arguments are taken for arguments."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import LARGEST_TEXT, Unparsable

PIECES = st.lists(
    st.sampled_from([
        "a", "--bf16", " ", "\n", "\\\n", "\r\n", "'x y'", '"q $V"', "$(", ")", "`", "${A:-b}", "#", "A=1", "=", "(",
        ";", "&&", "|", "<<E\n", "E\n", ">", "2>&1", "é", "\\", "'", '"', "$'", "{", "}", "((", "))", "<(", "\t", "$",
    ])
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(PIECES)
def test_any_text_is_scanned_or_refused_with_a_line(pieces):
    data = "".join(pieces).encode()
    try:
        script = scan_shell(data)
    except Unparsable as error:
        assert 1 <= error.line <= data.count(b"\n") + data.count(b"\r") + 1
        return
    for command in script.commands:
        words = [*command.words, *(item for a in command.assignments for item in (a.value, *a.items))]
        for word in words:
            assert data[word.start : word.end].decode("latin-1") == word.raw
            if word.body:
                assert data[slice(*word.body)].decode("latin-1") == word.text


def words_of(text):
    return [[word.text for word in command.words] for command in scan_shell(text.encode()).commands]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d\" # e\n", [["a", "b c", "d"]]),
        ("a \\\n  b\n", [["a", "b"]]),
        ("a b\\\nc\n", [["a", "bc"]]),
        ("a#b #c", [["a#b"]]),
        ("a $(b 'c') d", [["b", "c"], ["a", None, "d"]]),
        ('a `b c` "`d`"', [["b", "c"], ["d"], ["a", None, None]]),
        ('a "$(b "c d")"', [["b", "c d"], ["a", None]]),
        ("a ${b:-c d} e", [["a", None, "e"]]),
        ("a > b 2>&1 < c d", [["a", "d"]]),
        ("a <<< 'b' c", [["a", "c"]]),
        ("a; b && c || d | e & f", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("x=$((1 + 2)) a", [["a"]]),
        ("a <<E b\nnot a word\nE\nc", [["a", "b"], ["c"]]),
        ("a <<-'E'\n\tx\n\tE\nb", [["a"], ["b"]]),
        ("a $'it\\'s' $", [["a", None, "$"]]),
        ("a \\\n  `# b` \\\n  --c `#d e` --f\n", [["a", "--c", "--f"]]),
        ("a `b # c`\nd", [["b"], ["a", None], ["d"]]),
        ('a "`b # it`s" # c`\nd', [["b"], ["a", None], ["d"]]),
        ("a \\\n  # b `c\n", [["a"]]),
    ],
)
def test_a_command_line_is_split_into_words(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "line"), [("a\n'b", 2), ('a "b', 1), ("a\n\n$(b", 3), ("a <<E\nb\n", 2), ("A=(b", 1), ("${a", 1)]
)
def test_an_unterminated_construct_is_refused_with_the_line_where_it_begins(text, line):
    with pytest.raises(Unparsable) as refusal:
        scan_shell(text.encode())
    assert refusal.value.line == line


def test_an_array_has_its_words():
    (command,) = scan_shell(b"A=(--x 'y z' # c\n --w)").commands
    assert [item.text for item in command.assignments[0].items] == ["--x", "y z", "--w"]


def test_nesting_that_is_too_deep_is_refused():
    with pytest.raises(Unparsable, match="nested"):
        scan_shell(b"$(" * 2000)


@pytest.mark.parametrize("line", [b"a\n", b"#" * 1024 + b"\n"])
def test_SE_a_script_that_is_too_large_is_refused_and_a_small_part_of_it_is_read(line):
    data = line * (LARGEST_TEXT // len(line) + 1)
    with pytest.raises(Unparsable, match=f"{len(data)} bytes: too large"):
        scan_shell(data)
    assert len(scan_shell(data + b"b c", len(data)).commands[0].words) == 2
