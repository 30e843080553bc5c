"""One round of each kind from tests/soak: after any kill, the same command again ends with the same result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.sshd import have_sshd
from tests.soak.rounds import Soak, play, prepare
from tests.soak.world import new_world

pytestmark = [pytest.mark.train, pytest.mark.ssh, pytest.mark.timeout(1200)]
ROUNDS = {"sync": 3, "train": 5, "verify": 1, "whole": 1}


@pytest.fixture(scope="module")
def soak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Soak]:
    if not have_sshd():
        pytest.skip("no OpenSSH server on this machine")
    world = new_world(tmp_path_factory.mktemp("soak"))
    yield prepare(world)
    world.close()


@pytest.mark.parametrize("name", ROUNDS)
def test_after_any_kill_the_same_command_reaches_the_same_result(soak: Soak, name: str) -> None:
    """`make soak` plays five hundred rounds."""
    only = replace(soak, kinds=[kind for kind in soak.kinds if kind.name == name])
    for number in range(ROUNDS[name]):
        lines: list[str] = []
        play(only, random.Random(f"{name}:{number}"), lines.append)
        assert lines
