"""Errors of a container engine are reported with the command that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.errors import ContainerUnavailable
from remote.link.container import Container, no_container
from remote.link.reach import open_host
from tests.remote.link.container_engine import engine, home, state, titan, verbs

__all__ = ["engine", "home"]


@pytest.mark.parametrize(
    ("file", "output", "message", "hint"),
    [
        (
            "down",
            "Cannot connect to the Docker daemon at unix:///run/docker.sock.\nIs the docker daemon running?\n",
            "Cannot connect to the Docker daemon at unix:///run/docker.sock. Is the docker daemon running?",
            "sudo systemctl start docker",
        ),
        (
            "down",
            "permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock\n",
            "permission denied while trying to connect to the Docker daemon socket at unix:///run/docker.sock",
            'sudo usermod -aG docker "$USER", then log in again',
        ),
        (
            "refused",
            'docker: Error response: could not select device driver "" with capabilities: [[gpu]].\n',
            'docker: Error response: could not select device driver "" with capabilities: [[gpu]].',
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        ),
        ("refused", "exec /bin/sh: not found\n", "exec /bin/sh: not found", "docker run --rm torch true"),
    ],
)
def test_an_engine_that_refuses_is_reported_with_the_command_that_helps(
    home: Path, engine: Path, file: str, output: str, message: str, hint: str
) -> None:
    state(engine, file).write_text(output)
    host = open_host(titan(Container("torch")))
    with pytest.raises(ContainerUnavailable) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.message == f"titan: no container: {message}"
    assert caught.value.hint == f"{hint}   (on titan)"
    assert verbs(engine).count("version") == 1
    assert "exec" not in verbs(engine)


@pytest.mark.parametrize(
    ("container", "message", "hint"),
    [
        (Container("broken"), "no such image", "docker pull broken   (on titan)"),
        (Container("torch", volumes=("/nowhere",)), "/nowhere does not exist", "correct `container.volumes`"),
        (Container("torch", engine="podman"), "no podman on PATH", "sudo apt-get install podman   (on titan)"),
    ],
)
def test_an_image_a_volume_or_an_engine_that_is_missing_is_reported(
    home: Path, engine: Path, container: Container, message: str, hint: str
) -> None:
    host = open_host(titan(container))
    with pytest.raises(ContainerUnavailable, match=message) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.hint.startswith(hint)


def test_a_host_without_an_engine_is_reported(home: Path) -> None:
    host = open_host(titan(Container("torch")))
    try:
        with pytest.raises(ContainerUnavailable, match="no docker, podman or apptainer on PATH"):
            host.probe(["true"])
    finally:
        host.close()


@pytest.mark.parametrize(
    ("image", "word"),
    [
        ("lab/torch:2.8", "lab/torch:2.8"),
        ("~/images/torch.sif", "~/images/torch.sif"),
        ("~/a b;id.sif", "~/'a b;id.sif'"),
        ("/a$(id).sif", "'/a$(id).sif'"),
    ],
)
def test_SE_the_image_name_is_quoted_as_one_word_in_hints(image: str, word: str) -> None:
    problem = no_container("no container (start apptainer): it failed", image, "titan")
    assert problem is not None and problem.hint == f"apptainer exec {word} true   (on titan)"
