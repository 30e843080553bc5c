"""A site with a real local agent: project files in memory, tree and manifest on the host."""

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from fixers.frame.site import Site
from remote.protocol.layout import ProjectLayout
from remote.protocol.machine import Disk, Driver, Gpu, Interpreter, Machine
from remote.protocol.survey import Survey
from remote.protocol.tree import Manifest, Row, TreeSurvey, pack_manifest, parse_manifest
from remote.protocol.values import dumps

PROJECT = ProjectLayout("speech-0badcafe")


class MemoryTree:
    """Project files in memory."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = dict(files)

    def paths(self):
        return tuple(self.files)

    def read(self, path):
        return self.files[path]


def machine(**known: Any) -> Machine:
    plain = {"hostname": "h", "machine_id": "m", "system": "Linux 6.1.0", "shm_bytes": 2**35, "clock_unix": 0.0}
    return Machine(**{**plain, **known})


def card(**known: Any) -> Gpu:
    plain = {"index": 0, "uuid": "GPU-1", "name": "TITAN RTX", "capability": (7, 5), "memory_bytes": 24 * 2**30}
    return Gpu(**{**plain, **known})


def survey_of(**known: Any) -> Survey:
    plain = {
        "payload": "", "machine": machine(), "interpreter": Interpreter(sys.executable), "driver": Driver(),
        "gpus": (), "disk": Disk("/", "/", 1, 1, 1), "tree": TreeSurvey(exists=True),
    }  # fmt: skip
    return Survey(**{**plain, **known})


def site_at(host: Any, files: Mapping[str, bytes] | None = None, **known: Any) -> Site:
    return Site(**{"tree": MemoryTree(files or {}), "host": host, "survey": survey_of(), "project": PROJECT, **known})


def put(host: Any, name: str, data: bytes) -> None:
    """Write a file into the host's tree and record it in the manifest, as a sync would."""
    host.write_bytes(f"{PROJECT.tree}/{name}", data)
    digest = hashlib.sha256(data).hexdigest()
    manifest = Manifest({name: Row(digest, digest, 0o644, len(data))})
    host.write_bytes(PROJECT.manifest, dumps(pack_manifest(manifest)))


def manifest_row(host: Any, name: str) -> Row:
    return parse_manifest(json.loads(host.read_bytes(PROJECT.manifest))).rows[name]


def remote_content(host: Any, name: str) -> bytes:
    return host.read_bytes(f"{PROJECT.tree}/{name}")


def apply(host: Any, plan: Any) -> None:
    for change in plan.changes:
        host.act(change.op, change.args)
