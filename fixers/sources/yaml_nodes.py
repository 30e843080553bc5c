"""Parse YAML to nodes with byte positions. No other module imports yaml.

Nodes have byte ranges, so that a scalar can be replaced without changing other bytes, and a line and column for error
messages. Tags never construct objects. An alias is the same node as its anchor. `yaml_values.py` converts nodes to
values.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import yaml

from fixers.sources.nodes import Mapping as Mapping
from fixers.sources.nodes import Node as Node
from fixers.sources.nodes import Path as Path
from fixers.sources.nodes import Scalar as Scalar
from fixers.sources.nodes import Sequence as Sequence
from fixers.sources.nodes import Span as Span
from fixers.sources.nodes import find as find
from fixers.sources.nodes import walk as walk
from remote.protocol.dataclass import dataclass, field

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CORE_TAG = "tag:yaml.org,2002:"
CLOSES = {"[": "]", "{": "}"}
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Limits:
    """The limits of a document. Larger documents are rejected before they use much time or memory."""

    bytes: int = 2**20
    depth: int = 64
    values: int = 200_000


LIMITS = Limits()


class YamlProblem(ValueError):
    """Invalid YAML, or YAML outside the accepted subset. `line` and `column` count from 1; they are 0 if unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.message = message
        self.line = line
        self.column = column


@dataclass
class _Open:
    """A sequence or mapping that is not closed yet."""

    event: Any
    children: list[Node] = field(default_factory=list)


def compose(data: bytes | str, limits: Limits = LIMITS, *, tags: bool = True) -> Node | None:
    """Return the root of the only document, or None if it is empty.

    `tags=False` rejects all tags. Raises YamlProblem.
    """
    documents = compose_all(data, limits, tags=tags)
    if len(documents) > 1:
        span = documents[1].span
        raise YamlProblem("a second document begins here; only one is allowed", span.line, span.column)
    return documents[0] if documents else None


def compose_all(data: bytes | str, limits: Limits = LIMITS, *, tags: bool = True) -> tuple[Node, ...]:
    """Return the root of every document of the stream. Raises YamlProblem."""
    text, to_byte = _decoded(data, limits)
    builder = _Builder(text, to_byte, limits, tags)
    try:
        for event in yaml.parse(text, Loader=LOADER):
            builder.add_event(event)
    except yaml.MarkedYAMLError as error:
        raise builder.unclosed_before(error) or _problem(error, text) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position] if isinstance(error.position, int) else ""
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        raise YamlProblem(f"character U+{_code(error.character):04X} is not allowed in YAML", line, column) from None
    return tuple(builder.documents)


class _Builder:
    """Builds nodes from parser events, without recursion."""

    def __init__(self, text: str, to_byte: list[int] | int, limits: Limits, tags: bool) -> None:
        self.documents: list[Node] = []
        self._text = text
        self._to_byte = to_byte
        self._limits = limits
        self._tags = tags
        self._open: list[_Open] = []
        self._values = 0
        self._anchors: dict[str, Node | None] = {}
        self._heights: dict[int, int] = {}

    def add_event(self, event: Any) -> None:
        if isinstance(event, yaml.NodeEvent):
            self._count_value(event)
        if isinstance(event, yaml.DocumentStartEvent):
            self._anchors = {}
        elif isinstance(event, yaml.ScalarEvent):
            self._close(event, Scalar(event.value, self._span(event), event.style or "", self._tag(event)))
        elif isinstance(event, yaml.AliasEvent):
            self._add(self._aliased(event))
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            self._begin(event)
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            self._end(event)

    def unclosed_before(self, error: yaml.MarkedYAMLError) -> YamlProblem | None:
        """Return the problem of a `[`, `{` or quote that an earlier line opens and no line closes, or None.

        The problem is where the parser cannot read on, which may be many lines later; its message names the line.
        """
        mark, quoted = error.problem_mark, "quoted scalar" in (error.context or "")
        starts = [one.event.start_mark for one in self._open if one.event.flow_style]
        start = error.context_mark if quoted else next(reversed(starts), None)
        if start is None or mark is None or start.line == mark.line:
            return None
        sign, rest = self._text[start.index : start.index + 1], self._text[mark.index :]
        if sign in CLOSES and rest.count(CLOSES[sign]) > rest.count(sign):
            return None
        message = f"invalid YAML: the {sign} in line {start.line + 1} is not closed"
        return YamlProblem(message, mark.line + 1, mark.column + 1)

    def _begin(self, event: Any) -> None:
        self._open.append(_Open(event))
        if event.anchor:
            self._anchors[event.anchor] = None
        self._check_depth(1, event)

    def _end(self, event: Any) -> None:
        opened = self._open.pop()
        begin, children = opened.event, opened.children
        span = self._span(begin, event.end_mark.index if begin.flow_style else None, children)
        if isinstance(event, yaml.SequenceEndEvent):
            self._close(begin, Sequence(tuple(children), span, self._tag(begin), bool(begin.flow_style)))
        else:
            pairs = tuple(zip(children[::2], children[1::2], strict=True))
            self._close(begin, Mapping(pairs, span, self._tag(begin), bool(begin.flow_style)))

    def _close(self, event: Any, node: Node) -> None:
        if event.anchor:
            self._anchors[event.anchor] = node
        children = node.items if isinstance(node, Sequence) else ()
        if isinstance(node, Mapping):
            children = tuple(value for _, value in node.entries)
        self._heights[id(node)] = 1 + max((self._heights[id(child)] for child in children), default=0)
        self._add(node)

    def _add(self, node: Node) -> None:
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.documents.append(node)

    def _aliased(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            raise self._problem_at(f"*{event.anchor} refers to no anchor above", event)
        node = self._anchors[event.anchor]
        if node is None:
            raise self._problem_at(f"*{event.anchor} is inside the value that it refers to", event)
        self._check_depth(self._heights[id(node)], event)
        return node

    def _count_value(self, event: Any) -> None:
        """Count the value that begins here. Keys are not counted, as in `yaml_values.plain`."""
        parent = self._open[-1] if self._open else None
        if parent and isinstance(parent.event, yaml.MappingStartEvent) and len(parent.children) % 2 == 0:
            return
        self._values += 1
        if self._values > self._limits.values:
            raise self._problem_at(f"the file has more than {self._limits.values} values", event)

    def _check_depth(self, height: int, event: Any) -> None:
        if len(self._open) + height > self._limits.depth:
            raise self._problem_at(f"nested more than {self._limits.depth} levels deep", event)

    def _tag(self, event: Any) -> str:
        tag: str = event.tag or ""
        if tag and not self._tags:
            raise self._problem_at(f"the tag {tag} is not allowed: plain values only", event)
        return tag

    def _span(self, event: Any, end: int | None = None, children: list[Node] | None = None) -> Span:
        """Return the position of the value, without an anchor or tag before it."""
        start = event.start_mark.index
        while self._text[start : start + 1] in ("&", "!") and start < event.end_mark.index:
            start = min(_PROPERTY.match(self._text, start).end(), event.end_mark.index)  # type: ignore[union-attr]
        stop = event.end_mark.index if end is None else end
        stop_byte = max([self._byte(stop)] + [child.span.end for child in (children or [])[-1:] if end is None])
        line = self._text.count("\n", event.start_mark.index, start) + event.start_mark.line + 1
        column = start - self._text.rfind("\n", 0, start)
        return Span(self._byte(start), stop_byte, line, column)

    def _byte(self, index: int) -> int:
        return index + self._to_byte if isinstance(self._to_byte, int) else self._to_byte[index]

    def _problem_at(self, message: str, event: Any) -> YamlProblem:
        return YamlProblem(message, event.start_mark.line + 1, event.start_mark.column + 1)


_PROPERTY = re.compile(r"(?:!<[^>\s]*>|[&!][^\s,\[\]{}]*)(?:\s+(?:#[^\n]*\n\s*)*)?")


def _decoded(data: bytes | str, limits: Limits) -> tuple[str, list[int] | int]:
    """Return the text without its byte order mark, and the byte offset of each character.

    For ASCII text, the offsets are one number: the length of the byte order mark.
    """
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > limits.bytes:
        raise YamlProblem(f"{len(raw)} bytes; {limits.bytes} is the limit")
    skipped = len(BOM) if raw.startswith(BOM) else 0
    try:
        text = raw[skipped:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start + skipped
        line = raw.count(b"\n", 0, at) + 1
        raise YamlProblem(f"byte {at} (0x{raw[at]:02x}) is not UTF-8", line, at - raw.rfind(b"\n", 0, at)) from None
    if text.isascii():
        return text, skipped
    return text, list(accumulate((len(character.encode()) for character in text), initial=skipped))


def _problem(error: yaml.MarkedYAMLError, text: str) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    message = f"invalid YAML: {error.problem or error.context}"
    if mark is None:
        return YamlProblem(message)
    if text[mark.index : mark.index + 1] == "\t" or "tab character" in message:
        message = "a tab is used where YAML requires spaces"
    return YamlProblem(message, mark.line + 1, mark.column + 1)


def _code(character: Any) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")
