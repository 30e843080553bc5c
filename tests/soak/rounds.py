"""Rounds: the initial state, the command, and the stages and victims of each kind of round."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from remote.protocol.exits import ExitCode
from tests.soak.kills import OF_THE_JOB, ON_THE_WAY, STAGES, RunningCommand, kill_victim, wait_for
from tests.soak.oracle import (
    End,
    Sampler,
    check_end,
    check_exit,
    check_job,
    check_local,
    check_mirror,
    check_nothing_verified,
    check_quiet,
    check_tree,
    read_end,
)
from tests.soak.world import World, change_project, digests

PATIENCE_S = 280.0
TRIES = 12


@dataclass
class Kind:
    """A kind of round. `begins` is its initial state, `weight` its share of 32 rounds.

    The other fields are measured.
    """

    name: str
    weight: int
    begins: str
    config: str
    until: str
    kill_stages: tuple[str, ...]
    victims: tuple[str, ...]
    spans: dict[str, float] = field(default_factory=dict)
    honest: End | None = None
    allowed: dict[str, set[str]] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        return STAGES[: STAGES.index(self.until) + 1]

    @property
    def end(self) -> End:
        """The result of undisturbed runs."""
        assert self.honest is not None, f"{self.name} was not measured"
        return self.honest

    @property
    def trains(self) -> bool:
        return self.until == "logs"


def make_kinds() -> list[Kind]:
    """Return the kinds of rounds. `sync` and `train` need no torch, whose import takes most of a round."""
    return [
        Kind("sync", 11, "changed", "light", "fix", ("sync", "fix"), ON_THE_WAY),
        Kind("train", 16, "proved", "light", "logs", ("train", "train", "train", "logs"), ON_THE_WAY + OF_THE_JOB),
        Kind("environment", 1, "new", "light", "environment", ("sync", "environment"), (*ON_THE_WAY, "host")),
        Kind("verify", 3, "fixed", "light", "verify", ("verify",), (*ON_THE_WAY, "host")),
        Kind("whole", 1, "new", "torch", "logs", STAGES, ON_THE_WAY + OF_THE_JOB),
    ]


@dataclass
class Soak:
    """The world, and its kinds after they have been measured."""

    world: World
    kinds: list[Kind]

    def roll(self, dice: random.Random) -> Kind:
        return dice.choices(self.kinds, [kind.weight for kind in self.kinds])[0]


def prepare(world: World) -> Soak:
    """Save every initial state, and measure the undisturbed runs."""
    kinds = {kind.name: kind for kind in make_kinds()}
    world.save("new")
    measure(world, kinds["environment"])
    run_through(world, Kind("", 0, "", "light", "fix", (), ()))
    first = digests(world.remote / "tree")
    world.save("fixed")
    change_project(world.project)
    world.save("changed")
    measure(world, kinds["sync"])
    allow(kinds["sync"], first, digests(world.project, without=".halfstep"), digests(world.remote / "tree"))
    world.put_back("fixed")
    measure(world, kinds["verify"])
    world.save("proved")
    for name in ("train", "whole"):
        world.put_back(kinds[name].begins)
        measure(world, kinds[name])
    raw = digests(world.saved / "new" / "local" / "project")
    for name in ("environment", "verify", "train", "whole"):
        allow(kinds[name], raw, kinds[name].end.tree)
    return Soak(world, list(kinds.values()))


def allow(kind: Kind, *versions: dict[str, str]) -> None:
    """Allow files on the host to match any of these versions."""
    for version in versions:
        for path, digest in version.items():
            kind.allowed.setdefault(path, set()).add(digest)


def run_through(world: World, kind: Kind) -> None:
    """Run the command undisturbed and measure each stage, the first one from the connection on."""
    connections = world.proxy.connections
    typed = RunningCommand(world.start(kind.config, kind.until))
    assert wait_for(lambda: world.proxy.connections > connections or typed.over, PATIENCE_S)
    last = time.monotonic() - typed.began
    code = typed.finish(PATIENCE_S)
    assert code == 0, typed.out + typed.err
    for stage in kind.stages:
        kind.spans[stage] = typed.ended[stage] - last
        last = typed.ended[stage]


def measure(world: World, kind: Kind) -> None:
    run_through(world, kind)
    nothing_left(world, kind)
    kind.honest = read_end(world)


def nothing_left(world: World, kind: Kind) -> None:
    """Run the command once more and check that every stage is skipped."""
    states = run_again(world, kind)
    assert set(states.values()) == {"skipped"}, f"I10: something was left to do: {states}"
    check_quiet(world)


def run_again(world: World, kind: Kind, *more: str) -> dict[str, str]:
    """Run the command to its end, which must succeed, and return the states of the stages.

    Raises OnlyBroken if the command correctly refuses to resume.
    """
    typed = RunningCommand(world.start(kind.config, kind.until, "--json", *more))
    code = typed.finish(PATIENCE_S)
    check_exit(code, typed.err)
    if code == ExitCode.CHECKPOINT and not more:
        check_nothing_verified(world)
        raise OnlyBroken
    assert code == 0, f"I10: second run: exit {code}: {typed.out}{typed.err}"
    return {stage["name"]: stage["state"] for stage in json.loads(typed.out)["stages"]}


class OnlyBroken(Exception):
    """The only trainer checkpoint is incomplete, so that no resume is possible."""


@dataclass(frozen=True)
class Kill:
    """One kill, and the exit code of the command, which is -9 if it was the victim itself."""

    kind: Kind
    stage: str
    victim: str
    after_s: float
    code: int

    def __str__(self) -> str:
        return f"{self.kind.name}: {self.victim} killed in {self.stage} after {self.after_s:.3f} s, exit {self.code}"


def play(soak: Soak, dice: random.Random, report: Callable[[str], None]) -> None:
    """Play one round: kill, run the same command again, then find nothing to do. Check every invariant."""
    world, kind = soak.world, soak.roll(dice)
    for _ in range(TRIES):
        stage, victim = dice.choice(kind.kill_stages), dice.choice(kind.victims)
        after_s = dice.uniform(0.0, kind.spans[stage])
        report(f"{kind.name}: {victim} in {stage} after {after_s:.3f} s")
        world.put_back(kind.begins)
        before = digests(world.project, without=".halfstep")
        with Sampler(world) as sampler:
            kill = kill_once(world, kind, stage, victim, after_s)
            if kill is None:
                continue
            report(str(kill))
            check_local(world, before)
            check_tree(world, kind.allowed)
            check_mirror(world, whole=False)
            try:
                run_again(world, kind)
            except OnlyBroken:
                # Its first save was interrupted. --force starts another run at step 0, as suggested by the hint.
                run_again(world, kind, "--force", "train")
                report(f"{kill}, then 43")
                check_local(world, before)
                check_quiet(world)
                return
        sampler.check()
        nothing_left(world, kind)
        check_local(world, before)
        check_end(world, kind.end)
        if kind.trains:
            check_mirror(world, whole=True)
            check_job(world, killed_jobs=int(victim in OF_THE_JOB))
        return
    raise AssertionError(f"{kind.name}: nothing was killed in {TRIES} tries")


def kill_once(world: World, kind: Kind, stage: str, victim: str, after_s: float) -> Kill | None:
    """Start the command and kill the victim after that time in that stage.

    Return None if the victim did not exist.
    """
    connections = world.proxy.connections
    typed = RunningCommand(world.start(kind.config, kind.until))
    before = STAGES[: STAGES.index(stage)][-1:]

    def begun() -> bool:
        return typed.over or (before[0] in typed.ended if before else world.proxy.connections > connections)

    try:
        assert wait_for(begun, PATIENCE_S), f"I11: {stage} did not begin in {PATIENCE_S:.0f} s"
        wait_for(lambda: typed.over, after_s)
        hit = kill_victim(world, victim, typed)
        if not hit:
            typed.finish(PATIENCE_S)
            return None
        code = typed.finish(PATIENCE_S)
    finally:
        typed.kill()
    if victim != "laptop":
        check_exit(code, typed.err)
    return Kill(kind, stage, victim, after_s, code)
