"""The slow probe of the interpreter and the disk. The results are stored for the fast survey."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from typing import Any, Dict

from remote.payload.probes.compute_node import place_of
from remote.payload.probes.machine import read_disk
from remote.payload.probes.project_python import ask_python
from remote.payload.probes.python import (
    InterpreterFault,
    ask_interpreter,
    read_interpreter,
    store_interpreter,
)
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.request.refusal import Refusal, refusal_to_json
from remote.payload.tree.state import Project
from remote.protocol.card import QUEUE_S
from remote.protocol.environment import CardTrial, EnvironmentFacts, EnvironmentRequest
from remote.protocol.layout import ProjectLayout
from remote.protocol.machine import Disk
from remote.protocol.quantities import size as quantity
from remote.protocol.values import decode, encode

BLOCK = 2**20


def probe_environment(call: Call) -> Dict[str, Any]:
    """Answer an `EnvironmentRequest` with `EnvironmentFacts`. Store the interpreter's facts in environment.json."""
    request = decode(EnvironmentRequest, call.args)
    project = Project(call.workdir, ProjectLayout(checked_name(request.project)))
    disk = write_disk(call.path(project.layout.runs), request.write_bytes)
    facts = EnvironmentFacts(read_interpreter(request.python, project, request.environment.get("PYTHONPATH")), disk)
    if not facts.interpreter.error:
        facts = _with_trial(facts, call, request, project)
    answer: Dict[str, Any] = encode(facts)
    return answer


def _with_trial(facts: EnvironmentFacts, call: Call, request: EnvironmentRequest, project: Project) -> EnvironmentFacts:
    path = facts.interpreter.path
    environment, deadline_s = dict(request.environment), request.deadline_s
    if request.slurm is not None:  # Slurm chooses the card.
        deadline_s += QUEUE_S
    elif request.gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in request.gpus)
    try:
        known = ask_interpreter(path)
        arguments = {"packages": list(request.packages)}
        with place_of(call, project.layout, request.slurm, request.deadline_s) as place:
            answer = ask_python(path, place, "probe-torch", arguments, environment, deadline_s)
    except (Refusal, InterpreterFault) as fault:
        return dataclasses.replace(facts, error=str(fault))
    torch = facts.interpreter.torch
    if torch is not None and "arch_list" in answer:
        known = dataclasses.replace(known, arch_list=tuple(answer["arch_list"]), torch_version=torch.version)
    store_interpreter(call.path(project.layout.environment), path, known)
    return dataclasses.replace(
        facts,
        interpreter=read_interpreter(path, project, request.environment.get("PYTHONPATH")),
        cuda_available=bool(answer.get("cuda_available")),
        cards=tuple(decode(CardTrial, card) for card in answer.get("cards", [])),
        imports=decode(Dict[str, str], answer.get("imports", {})),
    )


def write_disk(folder: str, size: int) -> Disk:
    """Write, sync and remove `size` bytes under `folder`, and return its file system.

    Only a write reveals an exhausted quota: the write fails with EDQUOT, although statvfs shows free space.
    """
    disk = read_disk(folder)
    if disk.error:
        return disk
    parent = folder
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    block = os.urandom(BLOCK)
    try:
        with tempfile.TemporaryFile(prefix=".hs-part-", dir=parent) as file:
            for _ in range(max(1, size // BLOCK)):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        written = f"a test file of {quantity(max(size, BLOCK))} ({quantity(disk.free_bytes)} were free)"
        return dataclasses.replace(disk, error=f"{refusal_to_json(error)['message']} for {written}")
    return disk
