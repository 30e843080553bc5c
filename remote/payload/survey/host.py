"""The survey of a host: one answer with all facts that a command needs. Read-only."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List

from remote.payload.probes.gpu import read_gpus, start_gpu_queries
from remote.payload.probes.machine import read_disk, read_machine
from remote.payload.probes.python import read_interpreter
from remote.payload.request.call import Call
from remote.payload.request.names import checked_name
from remote.payload.survey.runs import survey_runs
from remote.payload.tree.state import Project
from remote.payload.tree.survey import survey_tree
from remote.protocol.layout import ProjectLayout
from remote.protocol.survey import Survey, SurveyRequest
from remote.protocol.values import decode, encode

DIGEST = re.compile(r"[0-9a-f]{64}")


def survey(call: Call) -> Dict[str, Any]:
    """Answer a `SurveyRequest` with a `Survey`."""
    request = decode(SurveyRequest, call.args)
    layout = ProjectLayout(checked_name(request.project))
    queries = start_gpu_queries()
    interpreter = read_interpreter(request.python, Project(call.workdir, layout), request.python_path)
    disk = read_disk(call.path(layout.runs))
    tree_survey = survey_tree(call.workdir, layout.key)
    runs = survey_runs(call.workdir, layout.key, digests=request.verify_checkpoints)
    driver, gpus = read_gpus(queries, request.gpus, request.card)
    host_survey = Survey(
        payload=call.payload,
        machine=read_machine(),
        interpreter=interpreter,
        driver=driver,
        gpus=gpus,
        disk=disk,
        tree=tree_survey,
        runs=runs,
        data=present_data(call.path(layout.data)),
    )
    answer: Dict[str, Any] = encode(host_survey)
    return answer


def present_data(folder: str) -> Dict[str, str]:
    """Map the digest of each completely received data set to its path."""
    names: List[str] = os.listdir(folder) if os.path.isdir(folder) else []
    return {name: os.path.join(folder, name) for name in sorted(names) if DIGEST.fullmatch(name)}
