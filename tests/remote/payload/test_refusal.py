"""Operating system errors on the host come with a hint about the setting to change."""

from __future__ import annotations

import errno
import os

import pytest

from remote.payload.request.refusal import refusal_to_json
from remote.protocol.exits import ExitCode


@pytest.mark.parametrize(
    ("number", "where", "kind", "code", "hinted"),
    [
        (errno.EACCES, "/data/projects/p/sync.json", "permission", ExitCode.DISK, True),
        (errno.EPERM, "/data", "permission", ExitCode.DISK, True),
        (errno.EACCES, "/datastore/venv/bin/python", "permission", ExitCode.ENVIRONMENT, False),
        (errno.EACCES, "", "permission", ExitCode.ENVIRONMENT, False),
        (errno.EROFS, "/data/projects", "read-only", ExitCode.DISK, False),
        (errno.ENOENT, "/data/projects/p", "not-found", ExitCode.ENVIRONMENT, False),
    ],
)
def test_the_hint_for_an_unusable_workdir_is_a_setting_of_the_host_file(
    number: int, where: str, kind: str, code: ExitCode, hinted: bool
) -> None:
    answer = refusal_to_json(OSError(number, os.strerror(number), where or None), "/data")
    assert (answer["kind"], answer["exit_code"], answer["where"]) == (kind, code, where)
    assert ("`workdir:`" in answer.get("hint", "")) is hinted
