"""A host with wheels of torch and of a package, and the venv that the environment fixer creates from them."""

import json
import subprocess
import sys

import pytest

from remote.link.local import local_host
from remote.protocol.machine import Driver, Gpu, Interpreter
from tests.fixers.setup_rig import PROJECT, site_at, survey_of
from tests.lab.package_index import wheel
from tests.lab.payload import install_payload

TITAN_RTX = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 24 * 2**30)
ARCHITECTURES = "class cuda:\n    @staticmethod\n    def get_arch_list():\n        return {}\n"


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(install_payload(tmp_path / "host")))
    wheels = tmp_path / "host" / PROJECT.tree / "wheels"
    wheels.mkdir(parents=True)
    wheel(wheels, "torch", "2.13.1", ARCHITECTURES.format(["sm_75", "sm_80"]))
    wheel(wheels, "speechkit", "1.2", "answer = 42\n")
    (wheels.parent / "requirements.txt").write_text("speechkit>=1\n")
    yield agent
    agent.close()


def site_of(host, gpu=TITAN_RTX, **setting):
    survey = survey_of(
        interpreter=Interpreter(f"{host.workdir}/{PROJECT.tree}/venv/bin/python", error="no such file"),
        driver=Driver("550.54.15"),
        gpus=(gpu,),
    )
    settings = {"environment": {"base": sys.executable, "find_links": "wheels", "no_index": True, **setting}}
    return site_at(host, {"requirements.txt": b"speechkit>=1\n"}, survey=survey, gpu=gpu, settings=settings)


def venv(host):
    return f"{host.workdir}/{PROJECT.tree}/venv"


def state_of(host):
    return json.loads(host.read_bytes(f"{PROJECT.tree}/venv/halfstep.json"))["state"]


def imports(host, *packages):
    """Check that the venv's Python imports the packages."""
    subprocess.run([f"{venv(host)}/bin/python", "-c", f"import {', '.join(packages)}"], check=True)
