"""Parse POSIX shell to words with byte positions, separating arguments from comments, strings and heredocs.

Commands inside `$(...)`, backticks, subshells, functions and bash arrays are included. The result of an expansion is
unknown, so a word that contains one has no `text`. Offsets are bytes; text is decoded as Latin-1, which keeps one
character per byte.
"""

from __future__ import annotations

import re

from fixers.sources.splice import line_of, text_of
from fixers.sources.unparsable import Unparsable, require_small
from fixers.sources.words import CONTINUED, Assignment, Command, Heredoc, Script, Word
from remote.protocol.dataclass import dataclass, field

BLANK = re.compile(r"(?:[ \t]|\\\r?\n)+")
PLAIN = re.compile(r"[^\s\\'\"`$;&|<>()#]+|#")
OPERATOR = re.compile(r"\r?\n|;;&?|;&|;|&&|\|\||\|&|\||&(?!>)")
REDIRECT = re.compile(r"[0-9]*(?:&>>?|<<<|<>|>\||>>|>&|<&|>|<)(?!<)")
HEREDOC = re.compile(r"[0-9]*<<(-?)(?!<)")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]\s]*\])?\+?=")
VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])")
INLINE_COMMENT = re.compile(r"`[ \t]*#[^`]*`")
"""A comment between the continued lines of one command. The shell expands it to nothing."""
PYTHON = re.compile(r"(?:[\w./-]*/)?python[\d.]*")
MAX_DEPTH = 40


@dataclass
class _OpenHeredoc:
    """A heredoc whose body is not read yet. `mark` is the delimiter; `literal` is True if the delimiter is quoted."""

    mark: str
    tabs: bool
    literal: bool = False
    program: str = ""
    target: str = ""
    has_program: bool = False


@dataclass
class _Scanner:
    data: bytes
    text: str
    stop: int
    commands: list[Command] = field(default_factory=list)
    heredocs: list[Heredoc] = field(default_factory=list)
    pending: list[_OpenHeredoc] = field(default_factory=list)
    target: str = ""
    closings: list[str] = field(default_factory=list)

    def fail(self, message: str, at: int) -> Unparsable:
        return Unparsable(message, line_of(self.data, at))

    def script(self, at: int, closing: str) -> int:
        """Scan commands up to `closing`, or up to the end of the text if it is "". Returns the end position."""
        if len(self.closings) > MAX_DEPTH:
            raise self.fail(f"nested more than {MAX_DEPTH} levels deep", at)
        self.closings.append(closing)
        started = at
        while at < self.stop:
            if closing and self.text.startswith(closing, at):
                self.closings.pop()
                return at + len(closing)
            at = self.command(at, closing)
        if closing:
            raise self.fail(f"the {closing} that ends this is missing", started)
        self.closings.pop()
        return at

    def command(self, at: int, closing: str) -> int:
        """Scan one simple command and the operator after it. Returns the position after the operator."""
        assignments: list[Assignment] = []
        words: list[Word] = []
        while at < self.stop:
            at = self.blanks(at)
            if at >= self.stop or (closing and self.text.startswith(closing, at)):
                break
            if operator := OPERATOR.match(self.text, at, self.stop):
                at = operator.end()
                self.set_heredoc_programs(words)
                if operator[0].endswith("\n"):
                    at = self.heredoc_bodies(at)
                break
            if self.text[at] in "()":
                at += 1
                break
            if after := self.redirection(at):
                at = after
                continue
            if not words and (found := ASSIGNMENT.match(self.text, at, self.stop)):
                assignment, at = self.assignment(found)
                assignments.append(assignment)
                continue
            word, at = self.word(at)
            if not INLINE_COMMENT.fullmatch(word.raw):
                words.append(word)
        if assignments or words:
            self.commands.append(Command(tuple(assignments), tuple(words)))
        self.set_heredoc_programs(words)
        return at

    def set_heredoc_programs(self, words: list[Word]) -> None:
        """Set the program and the output file of the command's heredocs."""
        program = words[0].text or "" if words else ""
        program = next((word.raw for word in words if PYTHON.fullmatch(word.raw)), program)
        named = words[1].text or "" if program == "tee" and len(words) > 1 else ""
        for opened in self.pending:
            if not opened.has_program:
                opened.program, opened.target, opened.has_program = program, self.target or named, True
        self.target = ""

    def blanks(self, at: int) -> int:
        """Return the position after blanks, line continuations and a comment."""
        if blank := BLANK.match(self.text, at, self.stop):
            at = blank.end()
        if self.text.startswith("#", at) and at < self.stop:
            end = self.text.find("\n", at, self.stop)
            end = self.stop if end < 0 else end
            if "`" in self.closings and (quote := self.text.find("`", at, end)) >= 0:
                return quote
            return end - 1 if self.text[end - 1 : end] == "\r" else end
        return at

    def redirection(self, at: int) -> int:
        """Return the position after a redirection and its target, or 0 if there is no redirection."""
        if heredoc := HEREDOC.match(self.text, at, self.stop):
            word, at = self.word(self.blanks(heredoc.end()))
            mark = re.sub(r"[\\'\"]", "", word.raw)
            self.pending.append(_OpenHeredoc(mark, bool(heredoc[1]), mark != word.raw))
            return at
        redirect = REDIRECT.match(self.text, at, self.stop)
        if redirect is None:
            return 0
        at = self.blanks(redirect.end())
        if self.text.startswith(("(", "<(", ">("), at):
            return self.script(self.text.index("(", at) + 1, ")")
        if at >= self.stop:
            return at
        word, after = self.word(at)
        if ">" in redirect[0] and "&" not in redirect[0]:
            self.target = word.text or ""
        return after

    def heredoc_bodies(self, at: int) -> int:
        """Return the position after the bodies of the heredocs that the previous line opened."""
        for opened in self.pending:
            start = at
            while True:
                if at >= self.stop:
                    raise self.fail(f"the heredoc has no closing line {opened.mark!r}", start)
                end = self.text.find("\n", at, self.stop)
                end = self.stop if end < 0 else end
                line = self.text[at:end].rstrip("\r")
                after = min(end + 1, self.stop)
                if (line.lstrip("\t") if opened.tabs else line) == opened.mark:
                    self.heredocs.append(Heredoc(start, at, opened.program, opened.target, opened.literal))
                    at = after
                    break
                at = after
        self.pending.clear()
        return at

    def assignment(self, found: re.Match[str]) -> tuple[Assignment, int]:
        at = found.end()
        if self.text.startswith("(", at):
            return self.array(found[1], at)
        value, after = self.word(at, empty=True)
        return Assignment(found[1], value, appends=found[0].endswith("+=")), after

    def array(self, name: str, start: int) -> tuple[Assignment, int]:
        """Scan `NAME=( word word )`, which may span several lines."""
        items: list[Word] = []
        at = start + 1
        while True:
            at = self.blanks(at)
            if at >= self.stop:
                raise self.fail("the ) that ends this array is missing", start)
            if self.text[at] == ")":
                raw = self.text[start : at + 1]
                return Assignment(name, Word(start, at + 1, raw, None), tuple(items)), at + 1
            if self.text[at] in "\r\n":
                at += 1
                continue
            word, at = self.word(at)
            items.append(word)

    def word(self, start: int, *, empty: bool = False) -> tuple[Word, int]:
        """Return the word and the position after it. An empty word is valid only if `empty` is True."""
        at, seen, known = start, "", True
        while at < self.stop:
            char = self.text[at]
            if plain := PLAIN.match(self.text, at, self.stop):
                seen, at = seen + plain[0], plain.end()
            elif joined := CONTINUED.match(self.text, at, self.stop):
                at = joined.end()
            elif char == "\\":
                seen, at = seen + self.text[at + 1 : at + 2], at + 2
            elif char == "'":
                end = self.closing_quote(at)
                seen, at = seen + self.text[at + 1 : end], end + 1
            elif char == '"':
                piece, exact, at = self.double_quoted(at)
                seen, known = seen + piece, known and exact
            elif char in "$`" and char != self.closings[-1]:
                at, literal = self.expansion(at)
                seen, known = seen + literal, known and bool(literal)
            else:
                break
        if at == start and not empty:
            at += 1
        at = min(at, self.stop)
        return Word(start, at, self.text[start:at], seen if known else None), at

    def closing_quote(self, at: int) -> int:
        end = self.text.find("'", at + 1, self.stop)
        if end < 0:
            raise self.fail("the ' that ends this string is missing", at)
        return end

    def double_quoted(self, start: int) -> tuple[str, bool, int]:
        at, seen, exact = start + 1, "", True
        while at < self.stop:
            char = self.text[at]
            if char == '"':
                return seen, exact, at + 1
            if char == "\\":
                escaped = self.text[at + 1 : at + 2]
                seen += "" if escaped == "\n" else escaped if escaped in '$`"\\' else "\\" + escaped
                at += 2
            elif char in "$`":
                at, literal = self.expansion(at)
                seen, exact = seen + literal, exact and bool(literal)
            else:
                seen, at = seen + char, at + 1
        raise self.fail('the " that ends this string is missing', start)

    def expansion(self, at: int) -> tuple[int, str]:
        """Return the position after an expansion, and an empty text. The text is "$" if the `$` starts no expansion."""
        if self.text[at] == "`":
            return self.script(at + 1, "`"), ""
        if self.text.startswith("$((", at) and (end := self.arithmetic(at + 1)):
            return end, ""
        if self.text.startswith("$(", at):
            return self.script(at + 2, ")"), ""
        if self.text.startswith("${", at):
            return self.braces(at), ""
        if self.text.startswith("$'", at):
            return self.ansi_quoted(at), ""
        name = VARIABLE.match(self.text, at, self.stop)
        return (name.end(), "") if name else (at + 1, "$")

    def arithmetic(self, start: int) -> int:
        """Return the position after the arithmetic `((...))`, or 0 if the brackets are nested subshells."""
        depth = 0
        for at in range(start, self.stop):
            depth += {"(": 1, ")": -1}.get(self.text[at], 0)
            if not depth:
                return at + 1 if self.text[at - 1] == ")" else 0
        return 0

    def braces(self, start: int) -> int:
        at, depth = start + 2, 1
        while at < self.stop:
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char == "'" and depth == 1 and "'" in self.text[at + 1 : self.stop]:
                at = self.text.find("'", at + 1, self.stop)
            elif char == "{":
                depth += 1
            elif char == "}":
                depth -= 1
                if not depth:
                    return at + 1
            at += 1
        raise self.fail("the } that ends this expansion is missing", start)

    def ansi_quoted(self, start: int) -> int:
        at = start + 2
        while at < self.stop:
            if self.text[at] == "'":
                return at + 1
            at += 2 if self.text[at] == "\\" else 1
        raise self.fail("the ' that ends this string is missing", start)


def scan_shell(data: bytes, start: int = 0, stop: int | None = None) -> Script:
    """Return all commands in `data[start:stop]`.

    Raises Unparsable for an unterminated quote, bracket or heredoc, and for a text that is too large.
    """
    stop = len(data) if stop is None else stop
    require_small(stop - start)
    scanner = _Scanner(data, text_of(data), stop)
    if start == 0 and data.startswith(b"\xef\xbb\xbf"):
        start = 3
    scanner.script(start, "")
    return Script(tuple(scanner.commands), tuple(scanner.heredocs))
