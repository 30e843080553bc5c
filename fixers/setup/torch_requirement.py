"""Parse the `torch` setting of the environment fixer: a version, a specifier, or a requirement."""

from __future__ import annotations

import re

from remote.protocol.dataclass import dataclass
from remote.protocol.text import version_numbers, whole_number

Release = tuple[int, ...]

VERSION = r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?(?:\.dev\d+)?(?:\+[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*)?"
CLAUSE = re.compile(rf"(===|==|~=|!=|<=|>=|<|>)\s*({VERSION}(?:\.\*)?)", re.ASCII)
BARE = re.compile(rf"{VERSION}(?:\.\*)?", re.ASCII)
NAMED = re.compile(r"(?:torch|pytorch)(?![A-Za-z0-9_.-]*[A-Za-z])\s*(.*)", re.IGNORECASE | re.DOTALL)
URL = re.compile(r"torch\s*@\s*(?:https?|file)://\S+")
OLDEST_FLOAT = 2.6
"""A YAML number below this value is rejected, because YAML parses 2.10 as 2.1."""


class BadTorch(ValueError):
    """The setting is not a torch version. `nearest` is the valid spelling that was probably intended, or empty."""

    def __init__(self, message: str, nearest: str = "") -> None:
        super().__init__(message)
        self.nearest = nearest


@dataclass(frozen=True)
class TorchRequirement:
    """A pip requirement, and its clauses, such as (">=", "2.4")."""

    requirement: str
    clauses: tuple[tuple[str, str], ...] = ()

    @property
    def by_url(self) -> bool:
        """Whether the requirement names one archive by URL. pip then uses no index."""
        return "@" in self.requirement

    @property
    def build(self) -> str:
        """The tag of the requested build, such as cu126, or an empty string if no build is requested."""
        return next((version.partition("+")[2] for _, version in self.clauses if "+" in version), "")

    def at(self, minor: tuple[int, int]) -> str:
        """Return the requirement, restricted to one minor version."""
        exact = any(operator in ("==", "===") for operator, _ in self.clauses)
        clause = f"=={minor[0]}.{minor[1]}.*"
        if self.by_url or (exact and self.clauses[0][1].count(".") > 1):
            return self.requirement
        return f"torch{clause}" if exact or not self.clauses else f"{self.requirement},{clause}"

    def until(self, minor: tuple[int, int]) -> str:
        """Return the requirement, restricted to the releases up to this minor version."""
        if self.by_url or any(operator in ("==", "===") for operator, _ in self.clauses):
            return self.requirement
        return f"{self.requirement}{',' if self.clauses else ''}<{minor[0]}.{minor[1] + 1}"

    def allows(self, major: int, minor: int) -> bool:
        """Return True if a release of this minor version can satisfy every clause."""
        return all(_allows(operator, version, (major, minor)) for operator, version in self.clauses)


def parse_torch_requirement(value: object) -> TorchRequirement:
    """Parse the setting. An empty value or None allows every version. Raises BadTorch."""
    if isinstance(value, float) and value < OLDEST_FLOAT and len(str(value).partition(".")[2]) == 1:
        written = f"{value}0"
        raise BadTorch(f"{value} is a number in YAML, which drops trailing zeros; quote the version", written)
    text = str(value if value is not None else "").strip()
    if not text:
        return TorchRequirement("torch")
    if URL.fullmatch(text):
        return TorchRequirement(text)
    named = NAMED.fullmatch(text)
    parsed = parse_specifier((named[1] if named else text).strip()) if not text.lower().startswith("pytorch") else None
    if parsed is None:
        message = f'{text!r} is neither a version ("2.13.0") nor a specifier (">=2.4,<2.14") nor a requirement of torch'
        raise BadTorch(message, _nearest(text))
    return parsed


def parse_specifier(text: str) -> TorchRequirement | None:
    """Return the requirement of torch with this version or these clauses, or None if the text is neither."""
    if not text:
        return TorchRequirement("torch")
    if BARE.fullmatch(text):
        short = text.count(".") < 2 and "+" not in text and not text.endswith(".*")
        wanted = f"{text}.*" if short and text.replace(".", "").isdigit() else text
        return TorchRequirement(f"torch=={wanted}", (("==", wanted),))
    matches = [CLAUSE.fullmatch(part.strip()) for part in text.split(",")]
    clauses = tuple((match[1], match[2]) for match in matches if match)
    wildcard_misused = any(version.endswith(".*") and operator not in ("==", "!=") for operator, version in clauses)
    if len(clauses) != len(matches) or wildcard_misused:
        return None
    return TorchRequirement("torch" + ",".join(f"{operator}{version}" for operator, version in clauses), clauses)


REPAIRS = (
    (re.compile(r"^(?:py)?torch\b[\s:@_-]*", re.IGNORECASE), ""),
    (re.compile(r"^v(?=\d)", re.IGNORECASE), ""),
    (re.compile(r"\.[xX]\b"), ".*"),
    (re.compile(r"[-_](?=cu\d|cpu|rocm)"), "+"),
    (re.compile(r"=>"), ">="),
    (re.compile(r"=<"), "<="),
    (re.compile(r"(?<![=<>!~])=(?!=)"), "=="),
    (re.compile(r"(?<=[\d*])\s+(?=[<>=!~])"), ","),
    (re.compile(r"\s*(?:\band\b|&+)\s*"), ","),
    (re.compile(r"([<>]=?|~=)(\s*[\d.]+)\.\*"), r"\1\2"),
)


def _nearest(text: str) -> str:
    """Return the text with common mistakes corrected, or an empty string if the result is still invalid."""
    caret = re.fullmatch(r"(?:(?:py)?torch\W*)?\^\s*(\d+)(\.[\d.]+)?", text)
    if caret:
        major = whole_number(caret[1])
        return f">={caret[1]}{caret[2] or ''},<{major + 1}" if major is not None else ""
    for pattern, replacement in REPAIRS:
        text = pattern.sub(replacement, text)
    text = text.strip().rstrip(",.")
    return text if text and parse_specifier(text) is not None else ""


def _release(version: str) -> Release:
    return version_numbers(re.split(r"[+abr]|\.(?:post|dev)", version)[0])


def _allows(operator: str, version: str, minor: tuple[int, int]) -> bool:
    """Return True if a release of the minor version can satisfy the clause. Patch versions are ignored."""
    release = _release(version)
    clause_minor = (*release, 0)[:2]
    if operator in ("==", "==="):
        return minor[: len(release)] == release[:2]
    if operator == "~=":
        return minor >= clause_minor and minor[: len(release) - 1] == release[: len(release) - 1][:2]
    if operator == "!=":
        return not (version.endswith(".*") and minor[: len(release)] == release[:2])
    if operator == "<":
        return minor < clause_minor or (minor == clause_minor and any(release[2:]))
    return minor <= clause_minor if operator == "<=" else minor >= clause_minor
