"""What `run` may try by itself after a failure: a fixer, a change of config, or once more. Pure; docs/healing.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.diagnosis.catalog import find_entry
from pipeline.diagnosis.checks import find_check
from remote.protocol.findings import Finding, Severity

MOST_CURES = 2

Config = dict[str, Any]


@dataclass(frozen=True)
class Cure:
    """One thing to try. `fixer`: its name, to be run whatever was asked. `overrides`: keys as `--set` writes them.

    Neither: the same again, from the newest verified checkpoint. `name` is what is written into the run's record.
    """

    name: str
    words: str
    fixer: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)


def next_cure(
    history: Sequence[str], findings: Sequence[Finding], config: Config, spent: Collection[str] = ()
) -> Cure | None:
    """The next thing to try for the first error found; None where nothing may be tried.

    `history` are the names of the cures this run has had; `config` is the run's config as plain JSON. `spent` are
    fixers that this run has already asked and that would only say the same again.
    """
    if len(history) >= MOST_CURES:
        return None
    first = next((one for one in findings if one.severity is Severity.ERROR and is_known(one.check)), None)
    for name in cures_of(first.check) if first else ():
        cure = _cure(name, config)
        if cure is not None and cure.name not in history and cure.fixer not in spent:
            return cure
    return None


def is_known(check: str) -> bool:
    """The finding names a known failure, or a check that has a cure: what is tried must be for the first such one."""
    return find_entry(check) is not None or bool(cures_of(check))


def cures_of(check: str) -> tuple[str, ...]:
    """What may be tried for a failure or a check of that name, in order."""
    entry, row = find_entry(check), find_check(check)
    return (entry.cures if entry else ()) or (row.cures if row else ())


def _cure(name: str, config: Config) -> Cure | None:
    kind, _, what = name.partition(":")
    if kind == "retry":
        return Cure("retry", "trying again from the newest verified checkpoint")
    if kind == "fixer":
        if config.get("fixers", {}).get(what) == "never":
            return None
        return Cure(name, f"running the fixer {what}", fixer=what)
    return CONFIG_CURES[what](config)


def halve_batch(config: Config) -> Cure | None:
    """Half the batch with twice the accumulation: every optimizer step still sees the same samples.

    Only for the built-in trainer: a command of the user's takes its batch size from where we cannot see.
    """
    train = config.get("train", {})
    batch, accumulation = int(train.get("batch_size", 8)), int(train.get("gradient_accumulation", 8))
    if config.get("command") is not None or batch < 2 or batch % 2:
        return None
    return Cure(
        "config:halve-batch",
        f"batch size {batch} to {batch // 2}, accumulation {accumulation} to {accumulation * 2}",
        overrides={"train.batch_size": batch // 2, "train.gradient_accumulation": accumulation * 2},
    )


def expandable_segments(config: Config) -> Cure | None:
    """The allocator may grow its segments, which costs nothing and undoes fragments."""
    if "PYTORCH_CUDA_ALLOC_CONF" in config.get("env", {}):
        return None
    return Cure(
        "config:expandable-segments",
        "letting torch's allocator grow its segments",
        overrides={"env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    )


def precision_auto(config: Config) -> Cure | None:
    """A precision that was asked for and does not train gives way to the one the card is judged to train in."""
    if config.get("precision", "auto") == "auto":
        return None
    return Cure(
        "config:precision-auto",
        f"precision {config['precision']} to auto",
        overrides={"precision": "auto"},
    )


def leave_label_padding(config: Config) -> Cure | None:
    """Labels whose loss does not ignore -100 stay padded as the project pads them."""
    if config.get("fixers", {}).get("label-padding") == "never":
        return None
    return Cure(
        "config:leave-label-padding",
        "taking back what label-padding did",
        overrides={"fixers.label-padding": "never"},
    )


def free_port(config: Config) -> Cure | None:
    """A port the launcher takes from the environment becomes one that nobody listens on."""
    if {"MASTER_PORT", "PET_MASTER_PORT"} & set(config.get("env", {})):
        return None
    return Cure(
        "config:free-port",
        "a free port for the launcher's rendezvous",
        # torchrun takes defaults of its flags from PET_ variables; scripts of their own read MASTER_PORT.
        overrides={"env.MASTER_PORT": "{free_port}", "env.PET_MASTER_PORT": "{free_port}"},
    )


CONFIG_CURES: dict[str, Callable[[Config], Cure | None]] = {
    "halve-batch": halve_batch,
    "expandable-segments": expandable_segments,
    "precision-auto": precision_auto,
    "free-port": free_port,
    "leave-label-padding": leave_label_padding,
}
