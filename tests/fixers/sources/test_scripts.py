"""Commands of shell scripts, Makefiles and Dockerfiles: programs, variables, heredocs."""

import pytest

from fixers.sources.dockerfile import scan_dockerfile
from fixers.sources.makefile import scan_makefile
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable


def commands_of(script):
    """Return every command as words.

    `NAME=value` is a variable, brackets are an array, `?` is a value that only the shell can evaluate.
    """
    return [
        [
            *(f"{each.name}={words_of(each.value)}{items_of(each)}" for each in command.assignments),
            *map(words_of, command.words),
        ]
        for command in script.commands
    ]


def words_of(word):
    return "?" if word.text is None else word.text


def items_of(assignment):
    return f"({' '.join(map(words_of, assignment.items))})" if assignment.items else ""


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("", []),
        ("# only words", []),
        ("a # b\r\nc", [["a"], ["c"]]),
        ("a#b # c\n#d\ne", [["a#b"], ["e"]]),
        ("A=1 B='x y' c", [["A=1", "B=x y", "c"]]),
        ("A= b", [["A=", "b"]]),
        ("A+=x", [["A=x"]]),
        ("A[1]=x", [["A=x"]]),
        ("a B=1", [["a", "B=1"]]),
        ("A=$B c", [["A=?", "c"]]),
        ("1A=x", [["1A=x"]]),
        ("A=(b 'c d' $e\n# f\n g) h", [["A=?(b c d ? g)", "h"]]),
        ("A=() b", [["A=?", "b"]]),
        ("A=(b)\nc", [["A=?(b)"], ["c"]]),
        ("a\tb  c", [["a", "b", "c"]]),
        ("a \\\r\n b", [["a", "b"]]),
        ("a \\  b", [["a", " ", "b"]]),
        ("a\\ b c\\'d", [["a b", "c'd"]]),
        ("a\\", [["a"]]),
        ("a 'b'c\"d\"", [["a", "bcd"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a 'b\\' c", [["a", "b\\", "c"]]),
        ('a "b\\"c" "d\\e" "f\\$g" "h\\\ni" "j\\`"', [["a", 'b"c', "d\\e", "f$g", "hi", "j`"]]),
        ('a "b $c d" "e$ f"', [["a", "?", "e$ f"]]),
        ("a $b $1 $@ $? $ $, b$", [["a", "?", "?", "?", "?", "$", "$,", "b$"]]),
        ("a ${b} ${c:-'}'} ${d:-{e}} ${f\\}g} h", [["a", "?", "?", "?", "?", "h"]]),
        ('a "${b:-c}" "${d:-it\'s}" e', [["a", "?", "?", "e"]]),
        ("a $((1 + (2))) b", [["a", "?", "b"]]),
        ("a $((1 + 2) c", [["1", "+", "2"], ["a", "?", "c"]]),
        ("a $(b; c) d", [["b"], ["c"], ["a", "?", "d"]]),
        ("a $(b $(c)) d", [["c"], ["b", "?"], ["a", "?", "d"]]),
        ("a `b` c`d`e", [["b"], ["d"], ["a", "?", "?"]]),
        ("a $'b\\'c' d", [["a", "?", "d"]]),
        ("(a; b) c", [["a"], ["b"], ["c"]]),
        ("f() { a; }", [["f"], ["{", "a"], ["}"]]),
        ("a &\nb |& c || d && e ;; f ;& g", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a &> b &>> c", [["a"]]),
        ("a >b 2>>c <d e", [["a", "e"]]),
        ("a >| b <> c d", [["a", "d"]]),
        ("a 2>&1 <&3 b", [["a", "b"]]),
        ("a < <(b c) d", [["b", "c"], ["a", "d"]]),
        ("a <<< $b c", [["a", "c"]]),
        ("a >", [["a"]]),
        ("a b>c", [["a", "b"]]),
    ],
)
def test_a_shell_script_is_read_as_the_shell_reads_it(text, commands):
    assert commands_of(scan_shell(text.encode())) == commands


@pytest.mark.parametrize(
    ("text", "heredocs"),
    [
        ("cat > f <<E\nx\nE\n", [("x\n", "cat", "f")]),
        ("cat <<E > f\nx\nE", [("x\n", "cat", "f")]),
        ("cat <<E >> 'my f'\nx\nE", [("x\n", "cat", "my f")]),
        ("cat <<E >$F\nx\nE", [("x\n", "cat", "")]),
        ("cat <<E 2>&1\nx\nE", [("x\n", "cat", "")]),
        ("cat <<E < f\nx\nE", [("x\n", "cat", "")]),
        ("tee f <<E\nx\nE", [("x\n", "tee", "f")]),
        ("tee f > g <<E\nx\nE", [("x\n", "tee", "g")]),
        ("tee <<E\nx\nE", [("x\n", "tee", "")]),
        ("cp f <<E\nx\nE", [("x\n", "cp", "")]),
        ("<<E cat\nx\nE", [("x\n", "cat", "")]),
        ("$A <<E\nx\nE", [("x\n", "", "")]),
        ("cat <<E | tee f\nx\nE", [("x\n", "cat", "")]),
        ("a > f; cat <<E\nx\nE", [("x\n", "cat", "")]),
        ("cat <<A <<B\na\nA\nb\nB\n", [("a\n", "cat", ""), ("b\n", "cat", "")]),
        ("cat <<A; tee f <<B\na\nA\nb\nB\n", [("a\n", "cat", ""), ("b\n", "tee", "f")]),
        ("cat <<'E'\n$x\nE\n", [("$x\n", "cat", "")]),
        ("cat <<\\E\nx\nE\n", [("x\n", "cat", "")]),
        ("cat <<-E\n\tx\n\tE\n", [("\tx\n", "cat", "")]),
        ("cat <<E\n\tE\nE\n", [("\tE\n", "cat", "")]),
        ("cat <<E\r\nx\r\nE\r\n", [("x\r\n", "cat", "")]),
        ("cat << E\nE\n", [("", "cat", "")]),
        ("cat <<< E\n", []),
        ("cat <<E\nx\nE", [("x\n", "cat", "")]),
    ],
)
def test_a_heredoc_has_a_byte_range_the_program_that_reads_it_and_its_output_file(text, heredocs):
    script = scan_shell(text.encode())
    assert [(text[each.start : each.stop], each.program, each.target) for each in script.heredocs] == heredocs


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a\n'b\n", 2, "the ' that ends this string is missing"),
        ('a\n\n"b $c', 3, 'the " that ends this string is missing'),
        ("a $'b\n", 1, "the ' that ends this string is missing"),
        ("a\n${b", 2, "the } that ends this expansion is missing"),
        ("a\n$(b\nc", 2, "the ) that ends this is missing"),
        ("a `b", 1, "the ` that ends this is missing"),
        ("A=(b\nc", 1, "the ) that ends this array is missing"),
        ("\ncat <<E\nx\n", 3, "the heredoc has no closing line 'E'"),
    ],
)
def test_an_unterminated_construct_is_named_with_the_line_where_it_begins(text, line, words):
    with pytest.raises(Unparsable) as refusal:
        scan_shell(text.encode())
    assert (refusal.value.message, refusal.value.line) == (words, line)


def test_forty_levels_of_substitution_are_read_and_one_more_is_refused():
    assert scan_shell(b"$(" * 40 + b")" * 40).commands
    with pytest.raises(Unparsable, match="nested more than 40 levels deep"):
        scan_shell(b"$(" * 41 + b")" * 41)


def test_a_range_of_a_file_can_be_scanned_alone_and_a_byte_order_mark_is_skipped():
    data = b"\xef\xbb\xbfa b; c d"
    assert commands_of(scan_shell(data)) == [["a", "b"], ["c", "d"]]
    assert commands_of(scan_shell(data, 5, 9)) == [["b"], ["c"]]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("t:\n\tpython t.py --a 'b c'\n", [["python", "t.py", "--a", "b c"]]),
        ("t:\n\t@-+ python t.py\n", [["python", "t.py"]]),
        ("t: u ; python t.py\n", [["python", "t.py"]]),
        ("# a: b; c\n", []),
        ("a; b\n", []),
        ("t:\n\tpython \\\n\t  t.py\nA = b\n", [["python", "t.py"], ["A=b(b)"]]),
        (
            "A = b\nB := c d\nC ?= e\nD += f\nE ::= g\nF != h\n",
            [["A=b(b)"], ["B=?(c d)"], ["C=e(e)"], ["D=f(f)"], ["E=g(g)"], ["F=h(h)"]],
        ),
        ("export A=b\noverride private B = c\n", [["A=b(b)"], ["B=c(c)"]]),
        ("A =\n", [["A=?"]]),
        ("A = 'b c'  \n", [["A=b c(b c)"]]),
        ("A = $(B) c\n", [["A=?(B ? c)"]]),
        ("A = 'b\n", [["A=?"]]),
        ("define F\npython t.py\nendef\nB = c\n", [["python", "t.py"], ["B=c(c)"]]),
        ("t:\n\techo 'a\n\tb\n", [["b"]]),
        ("A = b\r\nt:\r\n\tc\r\n", [["A=b(b)"], ["c"]]),
        ("\ufeffA = b", [["A=b(b)"]]),
        ("  A = b", [["A=b(b)"]]),
    ],
)
def test_a_makefile_is_read_as_variables_and_recipes(text, commands):
    assert commands_of(scan_makefile(text.encode())) == commands


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("FROM x\nRUN a b\n", [["a", "b"]]),
        ("run a; b && c\n", [["a"], ["b"], ["c"]]),
        ("  ONBUILD RUN a\n", [["a"]]),
        ("RUN --mount=type=cache,target=/r --network=none a b\n", [["a", "b"]]),
        ('CMD ["python", "t.py", "--a=b"]\n', [["python", "t.py", "--a=b"]]),
        ('ENTRYPOINT ["a", 1]\nHEALTHCHECK CMD b\n', [["a", "1"], ["CMD", "b"]]),
        ('CMD ["a"\n', []),
        ("RUN a 'b\nRUN c\n", [["c"]]),
        ("ENV A=b C='d e'\n", [["A=b", "C=d e"]]),
        ("ENV A b\n", [["A=b"]]),
        ("ENV A b c\n", [["A", "b", "c"]]),
        ("ENV A $b\n", [["A=?"]]),
        ("ARG A=b\nARG B\n", [["A=b"], ["B"]]),
        ("ARG A b\n", [["A", "b"]]),
        ("RUN a \\\n  b \\\n# why\n\n  c\nRUN d\n", [["a", "b", "c"], ["d"]]),
        ("RUN a \\\r\n  b\r\nRUN c\r\n", [["a", "b"], ["c"]]),
        ("RUN a \\  \n  b\n", [["a", "b"]]),
        ("# RUN a\nLABEL x=RUN\nCOPY a b\n", []),
        ("\ufeffRUN a", [["a"]]),
    ],
)
def test_a_dockerfile_is_read_as_commands_and_variables(text, commands):
    assert commands_of(scan_dockerfile(text.encode())) == commands
