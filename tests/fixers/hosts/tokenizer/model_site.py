"""One model's repository, and the site of a project that uses it."""

import sys

from remote.protocol.machine import Interpreter
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.hub import COMMIT

REPO = "lab/speech-model"
FILE = "model/tokenizer.json"


def site_of(host, hub, files=None, *, setting=None, environment=None, model=None, packages=None):
    known = {**hub.environment, "HF_HOME": f"{host.workdir}/hf", **(environment or {})}
    interpreter = Interpreter(sys.executable, packages=packages or {"tokenizers": "0.23.1"})
    settings = {"tokenizer": setting} if setting else {}
    config = {"model": model or {"id": REPO, "revision": COMMIT}}
    survey = survey_of(interpreter=interpreter)
    return site_at(host, files, survey=survey, environment=known, settings=settings, config=config)


def leftovers(host):
    return [e.path for e in host.list_files(f"{PROJECT.scratch}")] + [
        e.path for e in host.list_files(PROJECT.tree) if ".hs-part-" in e.path or "incomplete" in e.path
    ]
