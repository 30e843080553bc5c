"""Files that must never leave the laptop, known by their name or by how they begin."""

from __future__ import annotations

import re

HEAD_BYTES = 4096

NAMES = frozenset(
    {
        ".env", ".envrc", ".netrc", "_netrc", ".pypirc", ".git-credentials", ".dockercfg", "kaggle.json",
        "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", ".htpasswd", ".pgpass",
        ".s3cfg", ".boto", "application_default_credentials.json",
    }
)  # fmt: skip
ENDINGS = (".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx")
HARMLESS_ENV = (".example", ".sample", ".template", ".dist", ".defaults")
FOLDERS = (
    "/.ssh/",
    "/.aws/",
    "/.gnupg/",
    "/.docker/config.json",
    "/.kube/config",
    "/.huggingface/token",
    "/huggingface/token",
)

KEY_BEGINS = re.compile(rb"\s*(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d)")
KEY_INSIDE = re.compile(rb"^-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----\s*$", re.MULTILINE)
SERVICE_ACCOUNT = re.compile(rb'"private_key"\s*:\s*"-----BEGIN [A-Z ]*PRIVATE KEY-----')
NPM_TOKEN = re.compile(rb"_authToken\s*=\s*[^\s$]")
# As the AWS tools write it, forty characters and no quotes: code that reads it from somewhere looks otherwise.
AWS_SECRET = re.compile(rb"^[ \t]*aws_secret_access_key[ \t]*=[ \t]*[A-Za-z0-9/+]{40}[ \t]*\r?$", re.MULTILINE)
ONLY_A_TOKEN = re.compile(rb"\s*(?:hf_[A-Za-z0-9]{30,}|gh[opsu]_[A-Za-z0-9]{36,}|github_pat_\w{40,}|sk-[\w-]{40,})\s*")
KEY_FILES = (".pem", ".key", ".crt", ".cer", ".asc", ".json", ".txt")


def secret_by_name(path: str) -> str:
    """Why a file of that name is never sent; empty where its name says nothing."""
    name = path.rpartition("/")[2]
    lower = name.lower()
    if lower in NAMES or (lower.startswith(".env.") and not lower.endswith(HARMLESS_ENV)):
        return f"a file named {name} holds secrets"
    if lower.endswith(ENDINGS):
        return f"a file ending in {lower[lower.rindex('.') :]} holds keys"
    slashed = f"/{path}"
    if any(folder in slashed for folder in FOLDERS):
        return "credentials of a tool"
    return ""


def secret_by_head(path: str, head: bytes) -> str:
    """Why a file that begins like that is never sent; empty where it may be."""
    if KEY_BEGINS.match(head):
        return "it begins as a private key"
    if path.lower().endswith(KEY_FILES) and (KEY_INSIDE.search(head) or SERVICE_ACCOUNT.search(head)):
        return "it holds a private key"
    if path.rpartition("/")[2] == ".npmrc" and NPM_TOKEN.search(head):
        return "it holds a registry token"
    if b"aws_secret_access_key" in head and AWS_SECRET.search(head):
        return "it holds the secret key of a cloud account"
    if ONLY_A_TOKEN.fullmatch(head):
        return "it holds nothing but an access token"
    return ""
