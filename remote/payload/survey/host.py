"""The survey of a host: everything that a verb needs, in one answer. Read-only."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import Any, Dict, List

from remote.payload.probes.gpu import read_gpus, start_gpu_queries
from remote.payload.probes.machine import free_ports, read_disk, read_machine
from remote.payload.probes.python import read_interpreter
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.survey.runs import survey_runs
from remote.payload.tree.survey import survey_tree
from remote.protocol.layout import ProjectLayout
from remote.protocol.survey import FileFact, Survey, SurveyRequest
from remote.protocol.values import decode, encode

HEAD_BYTES = 200
DIGEST = re.compile(r"[0-9a-f]{64}")
MAX_DIGESTED = 2**30
CHUNK = 4 * 2**20


def survey(call: Call) -> Dict[str, Any]:
    """Answer a `SurveyRequest` with a `Survey`."""
    request = decode(SurveyRequest, call.args)
    layout = ProjectLayout(checked_name(request.project))
    queries = start_gpu_queries()
    machine = read_machine()
    tree = call.path(layout.tree)
    interpreter = read_interpreter(request.python, tree, call.path(layout.environment))
    disk = read_disk(call.path(layout.runs))
    found_tree = survey_tree(call.workdir, layout.key)
    runs = survey_runs(call.workdir, layout.key, digests=request.verify_checkpoints)
    facts = tuple(file_fact(path, os.path.join(tree, os.path.expanduser(path))) for path in request.files)
    driver, gpus = read_gpus(queries, request.gpus, request.card)
    found = Survey(
        payload=call.payload,
        machine=machine,
        interpreter=interpreter,
        driver=driver,
        gpus=gpus,
        disk=disk,
        tree=found_tree,
        runs=runs,
        free_ports=tuple(free_ports(request.ports)),
        files=facts,
        data=present_data(call.path(layout.data)),
    )
    answer: Dict[str, Any] = encode(found)
    return answer


def file_fact(name: str, path: str) -> FileFact:
    """Size, digest and first bytes of a file; links are followed."""
    try:
        status = os.stat(path)
    except OSError:
        return FileFact(name, False)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_DIGESTED:
        return FileFact(name, True, status.st_size)
    digest = hashlib.sha256()
    head = b""
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                head = head or chunk[:HEAD_BYTES]
                digest.update(chunk)
    except OSError:
        return FileFact(name, True, status.st_size)
    return FileFact(name, True, status.st_size, digest.hexdigest(), head.decode("utf-8", "replace"))


def present_data(folder: str) -> Dict[str, str]:
    """Map the digest of each complete data set to its path."""
    names: List[str] = os.listdir(folder) if os.path.isdir(folder) else []
    return {name: os.path.join(folder, name) for name in sorted(names) if DIGEST.fullmatch(name)}
