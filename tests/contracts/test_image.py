"""The image installs only packages with a digest, in the versions of constraints.txt, on a base image with a digest."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.contracts.project_modules import ROOT

BLOCKS = re.split(r"\n(?=[a-z0-9])", (ROOT / "image-requirements.txt").read_text())
LOCKED = dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", "\n".join(BLOCKS), re.MULTILINE))
BASE = re.compile(r"[a-z0-9/.:-]+@sha256:[0-9a-f]{64}")


def test_every_package_of_the_image_has_a_digest() -> None:
    assert len(LOCKED) > 50
    assert [block for block in BLOCKS if "==" in block and "--hash=sha256:" not in block] == []


def test_the_image_has_the_versions_of_constraints_txt() -> None:
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    pinned = {canonicalize_name(name): version for name, _, version in lines}
    assert {name: pinned[name] for name in LOCKED if name in pinned} == {
        name: version for name, version in LOCKED.items() if name in pinned
    }, "run: make image-requirements"
    on_every_machine = re.findall(r"^([a-z0-9-]+)==[^ ;]+ \\$", "\n".join(BLOCKS), re.MULTILINE)
    assert on_every_machine
    assert [name for name in on_every_machine if name not in pinned] == []


def test_the_image_has_every_requirement_of_the_trainer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["train"]]
    missing = [name for line in wanted if canonicalize_name(name := Requirement(line).name) not in LOCKED]
    assert missing == [], "run: make image-requirements"


def test_base_images_have_digests_and_ports_are_on_loopback() -> None:
    compose = (ROOT / "docker-compose.yml").read_text()
    (of_dockerfile,) = re.findall(r"^ARG BASE_IMAGE=(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    of_compose = re.findall(r"BASE_IMAGE: \$\{\w+:-(.*)\}", compose)
    assert all(BASE.fullmatch(image) for image in (of_dockerfile, *of_compose))
    assert of_dockerfile in of_compose
    assert re.findall(r'- "(.*):2222:2222"', compose) == ["${BIND_ADDRESS:-127.0.0.1}"] * 2
