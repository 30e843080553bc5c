"""Detect files that contain secrets, by name or by content. These files must never leave the laptop."""

from __future__ import annotations

import re
import string

SCANNED_BYTES = 2**20
"""The number of bytes at the start of a file that are searched for keys and cloud credentials."""
NOTE_BYTES = 2**16
"""The maximum size of a file that is searched for passwords. A larger text is probably a corpus that mentions them."""

NAMES = frozenset(
    {
        ".env", ".envrc", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".dockercfg", "kaggle.json",
        "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", ".htpasswd", ".pgpass",
        ".s3cfg", ".boto", "application_default_credentials.json",
    }
)  # fmt: skip
ENDINGS = (".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx")
HARMLESS_ENV = (".example", ".sample", ".template", ".dist", ".defaults")
FOLDERS = ("/.ssh/", "/.aws/", "/.azure/", "/.gnupg/", "/.config/gcloud/", "/.password-store/")
FILES = (
    "/.docker/config.json",
    "/.kube/config",
    "/.huggingface/token",
    "/huggingface/token",
    "/.config/gh/hosts.yml",
    "/.config/rclone/rclone.conf",
)

KEY_BEGINS = re.compile(rb"\s*(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d)")
KEY_INSIDE = re.compile(rb"^-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----\s*$", re.MULTILINE)
SERVICE_ACCOUNT = re.compile(rb'"private_key"\s*:\s*"-----BEGIN [A-Z ]*PRIVATE KEY-----')
# A private key with its body. After the first line, a line of base64 is required, which may be indented, quoted or
# escaped, because tests often contain only the first line.
FULL_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.{1,200}?([A-Za-z0-9+/]{60})", re.DOTALL)
NPM_TOKEN = re.compile(rb"_authToken\s*=\s*[^\s$]")
# The format of AWS tools: forty characters without quotes. Code that reads the key from another place has quotes.
AWS_SECRET = re.compile(rb"^[ \t]*aws_secret_access_key[ \t]*=[ \t]*[A-Za-z0-9/+]{40}[ \t]*\r?$", re.MULTILINE)
CLOUD = (
    (
        "the secret key of a cloud account",
        re.compile(rb"aws_?secret_?access_?key[\"']?\s*[:=]\s*[\"']?([a-z0-9/+]{40})(?![a-z0-9/+=])", re.IGNORECASE),
    ),
    ("the key of a storage account", re.compile(rb"AccountKey=([A-Za-z0-9+/]{86}==)")),
    ("the key of a Kubernetes user", re.compile(rb"client-key-data[\"']?:\s*[\"']?([A-Za-z0-9+/]{100})")),
)
CLOUD_WORDS = (b"secret", b"accountkey", b"client-key-data")
ONLY_A_TOKEN = re.compile(rb"\s*(?:hf_[A-Za-z0-9]{30,}|gh[opsu]_[A-Za-z0-9]{36,}|github_pat_\w{40,}|sk-[\w-]{40,})\s*")
KEY_FILES = (".pem", ".key", ".crt", ".cer", ".asc", ".json", ".txt")

WORDS = (
    b"password",
    b"passwd",
    b"passphrase",
    b"pwd",
    b"secret",
    b"api_key",
    b"api-key",
    b"apikey",
    b"access_key",
    b"token",
)
PASSWORDS = WORDS[:4]
# The text after the name of a secret: a separator, then the value, which is one token with or without quotes.
# Repetitions are possessive: a value may contain the stars before it, and many ways to divide them would be tried.
VALUE = re.compile(
    rb"(?:[ _-]?(?:access[ _-]?)?key)?[\"'`*]*+[ \t]*+[:=][ \t*]*+"
    rb"([\"'`]?)([^\s\"'`,;<>(){}\[\]]{6,200}+)\1(?=[\s,;}\])\"'`]|$)"
)
# What a line may contain before the name of a secret, the letters of a name, and what may follow the value. The first
# two are no pattern: two repetitions that match the same character take quadratic time.
OPENING = b" \t\r\v\f>*#\"'`-"
NAME = (string.ascii_letters + string.digits + "_.-").encode()
LINE_ENDS = re.compile(rb"[ \t\r\"',;]*(?:\n|\Z)")
TOKEN = re.compile(rb"(?:hf_|gh[opsu]_|github_pat_|glpat-|sk-|xox[a-z]-|AKIA|eyJ)[\w.-]{16,}")
# The credentials in a URL, or in a header that git adds to its requests: `extraheader = AUTHORIZATION: basic ...`.
IN_URL = re.compile(rb"://(?:[^\s/:@\"'<>]{0,200}:)?(?:hf_|gh[opsu]_|github_pat_|glpat-)([\w-]{16,200})@")
IN_HEADER = re.compile(rb"authorization[\"']?:\s*[\"']?(?:basic|bearer)\s+([\w.~+/-]{24,4096}=*)", re.IGNORECASE)
HASH = re.compile(rb"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}|\$[0-9a-z]+\$.*)", re.IGNORECASE)
REFERENCE = re.compile(rb"[$%!&*@~/.\\]|.*(?:://|environ|getenv|\.\.\.)", re.IGNORECASE)
PLACEHOLDER = re.compile(
    rb".*(?:passw|changeme|change[_-]me|example|dummy|fake|placeholder|your|xxx|todo|redact|insert|replace|sample|\*\*\*)|"
    rb"test|(?:secret|default|hidden|masked|string|varchar|required|optional|unknown|incorrect|correct|invalid|protected|"
    rb"disabled|enabled|forgotten|prompt|boolean|undefined|nothing)\W*\Z",
    re.IGNORECASE,
)
CORPORA = (".jsonl", ".csv", ".tsv")
CODE = (
    ".py", ".pyi", ".ipynb", ".sh", ".bash", ".zsh", ".js", ".ts", ".c", ".cc", ".cpp", ".cu", ".h", ".hpp", ".go",
    ".rs", ".java", ".rb", ".lua", ".pl", ".r", ".jl", ".html", ".css",
)  # fmt: skip
"""The extensions of source code, in which `password=` is usually a variable or an argument."""


def secret_by_name(path: str) -> str:
    """Return why a file with this name must not be sent, or "". `path` may be absolute."""
    name = path.rpartition("/")[2]
    lower = name.lower()
    if lower in NAMES or (lower.startswith(".env.") and not lower.endswith(HARMLESS_ENV)):
        return f"a file named {name} holds secrets"
    if lower.endswith(ENDINGS):
        return f"a file ending in {lower[lower.rindex('.') :]} holds keys"
    slashed = f"/{path}"
    if any(folder in slashed for folder in FOLDERS) or slashed.endswith(FILES):
        return "credentials of a tool"
    return ""


def secret_by_content(path: str, start: bytes, size: int) -> str:
    """Return why a file of `size` bytes must not be sent, or "". `start` contains its first SCANNED_BYTES.

    Only the beginning of a binary file is examined.
    """
    if KEY_BEGINS.match(start):
        return "it begins like a private key"
    if ONLY_A_TOKEN.fullmatch(start):
        return "it contains only an access token"
    if b"\0" in start[:4096]:
        return ""
    if why := _credentials(path, start):
        return why
    if size > NOTE_BYTES or path.lower().endswith((*CODE, *CORPORA)):
        return ""
    if any(not PLACEHOLDER.match(match[1]) for match in IN_URL.finditer(start)):
        return "it holds a URL with an access token"
    if _has_random(IN_HEADER, start):
        return "it holds the credentials of an HTTP request"
    return _password(start)


def _credentials(path: str, start: bytes) -> str:
    if b"PRIVATE KEY" in start and _holds_private_key(path, start):
        return "it holds a private key"
    if path.rpartition("/")[2] == ".npmrc" and NPM_TOKEN.search(start):
        return "it holds a registry token"
    if b"aws_secret_access_key" in start and AWS_SECRET.search(start):
        return "it holds the secret key of a cloud account"
    lower = start.lower()
    if not any(word in lower for word in CLOUD_WORDS):
        return ""
    return next((f"it holds {what}" for what, pattern in CLOUD if _has_random(pattern, start)), "")


def _holds_private_key(path: str, start: bytes) -> bool:
    key_file = path.lower().endswith(KEY_FILES) and (KEY_INSIDE.search(start) or SERVICE_ACCOUNT.search(start))
    return bool(key_file) or _has_random(FULL_KEY, start)


def _has_random(pattern: re.Pattern[bytes], text: bytes) -> bool:
    return any(_is_random(match[1]) for match in pattern.finditer(text))


def _is_random(value: bytes) -> bool:
    """Return True if the value may be a real key. A placeholder repeats characters or contains EXAMPLE."""
    return len(set(value)) > 12 and b"EXAMPLE" not in value


def _password(text: bytes) -> str:
    """Describe the first line that assigns a real value to a password, key or token.

    Return "" if there is no such line.
    """
    lower = text.lower()
    for word in WORDS:
        at = lower.find(word)
        while at >= 0:
            end = at + len(word)
            match = VALUE.match(text, end)
            if match and _is_secret(word, match[2], fills_line=_fills_line(text, at, match.end())):
                return f"line {text.count(10, 0, at) + 1} holds the value of a {word.decode().replace('_', ' ')}"
            at = lower.find(word, end)
    return ""


def _fills_line(text: bytes, at: int, end: int) -> bool:
    """Return True if the line contains only the name and the value."""
    if not LINE_ENDS.match(text, end):
        return False
    return not text[text.rfind(b"\n", 0, at) + 1 : at].lstrip(OPENING).strip(NAME)


def _is_secret(word: bytes, value: bytes, *, fills_line: bool) -> bool:
    """Return True if `value`, assigned to `word`, looks like a real secret.

    `fills_line` is True if the line contains nothing else.
    """
    if TOKEN.fullmatch(value):
        return True
    if word == b"token" or value.isdigit() or REFERENCE.match(value) or PLACEHOLDER.match(value):
        return False
    mixed = any(c in b"0123456789" for c in value) and any(chr(c).isalpha() for c in value)
    if word not in PASSWORDS:
        return mixed and len(value) >= 16
    return not HASH.fullmatch(value) and (mixed or _is_passphrase(value, fills_line))


def _is_passphrase(value: bytes, fills_line: bool) -> bool:
    """Return True for letters with punctuation, or for one long word if the line contains nothing else."""
    if len(value) >= 10 and not value.rstrip(b".!?:").isalpha() and any(c in b"!@#%^&*?~+" for c in value):
        return True
    return fills_line and value.isalpha() and len(value) >= 8
