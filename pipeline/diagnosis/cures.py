"""Cures that `run` may apply after a failure: a fixer, a config change, or a retry. Pure; see docs/healing.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from pipeline.diagnosis.catalog import find_entry, load_catalog
from pipeline.diagnosis.checks import find_check, load_checks
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Finding, Severity

MOST_CURES = 2
LEAST_SHARE = 0.5

Config = dict[str, Any]


@dataclass(frozen=True)
class Cure:
    """One cure.

    `fixer` is a fixer to run even if the config turns it off; `overrides` are config keys as in `--set`. A cure without
    fixer and overrides retries the job from the newest verified checkpoint. `name` is stored in the run's record, and
    `words` describe the cure for the user.
    """

    name: str
    words: str
    fixer: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)


def next_cure(
    history: Sequence[str], findings: Sequence[Finding], config: Config, spent: Collection[str] = ()
) -> Cure | None:
    """Return the next cure for the first known error, or None if no cure is left.

    `history` are the names of the cures that were already applied to this run. `config` is the run's config as plain
    JSON. `spent` are fixers that already ran; a second run of them would change nothing.
    """
    if len(history) >= MOST_CURES:
        return None
    first = next((one for one in findings if one.severity is Severity.ERROR and is_known(one.check)), None)
    for name in cures_of(first.check) if first else ():
        cure = named_cure(name, config)
        if cure is not None and cure.name not in history and cure.fixer not in spent:
            return cure
    return None


def is_known(check: str) -> bool:
    """Return True if `check` is a failure in the catalog or a check with a cure."""
    return find_entry(check) is not None or bool(cures_of(check))


def cures_of(check: str) -> tuple[str, ...]:
    """Return the names of the cures for a failure or check, in the order in which they are applied."""
    entry, row = find_entry(check), find_check(check)
    return (entry.cures if entry else ()) or (row.cures if row else ())


def named_cure(name: str, config: Config) -> Cure | None:
    """Return the cure `name` for this config, or None if the cure is unknown or does not apply."""
    applied = (*(row.cures for row in load_catalog()), *(row.cures for row in load_checks()))
    if not any(name in cures for cures in applied):
        return None
    kind, _, what = name.partition(":")
    if kind == "retry":
        return Cure("retry", "trying again from the newest verified checkpoint")
    if kind == "fixer":
        if config.get("fixers", {}).get(what) == "never":
            return None
        return Cure(name, f"running the fixer {what}", fixer=what)
    return CONFIG_CURES[what](config)


def plan_less_memory(config: Config) -> Cure | None:
    """Lower the share of memory that the built-in trainer plans to use.

    Return None if the plan is fixed or already minimal.
    """
    train = config.get("train", {})
    share = float(train.get("memory_share", 0.9))
    auto = "auto" in (train.get("micro_batch", "auto"), train.get("gradient_checkpointing", "auto"))
    if config.get("command") is not None or not auto or share <= LEAST_SHARE:
        return None
    less = max(LEAST_SHARE, round(share - 0.2, 2))
    return Cure(
        "config:plan-less-memory",
        f"micro-batch and checkpointed layers planned for {less:.0%} of the card's free memory instead of {share:.0%}",
        overrides={"train.memory_share": less},
    )


def halve_batch(config: Config) -> Cure | None:
    """Halve the micro-batch that the config sets.

    The number of samples in an optimizer step does not change. Return None for a custom command, whose batch size is
    unknown.
    """
    size = config.get("train", {}).get("micro_batch", "auto")
    if config.get("command") is not None or size == "auto" or size < 2 or size % 2:
        return None
    return Cure("config:halve-batch", f"micro-batch {size} to {size // 2}", overrides={"train.micro_batch": size // 2})


def expandable_segments(config: Config) -> Cure | None:
    """Enable expandable segments of the CUDA allocator, which reduces fragmentation.

    Return None if `env:` configures the allocator.
    """
    if "PYTORCH_CUDA_ALLOC_CONF" in config.get("env", {}):
        return None
    return Cure(
        "config:expandable-segments",
        "turning on expandable segments of torch's CUDA allocator",
        overrides={"env.PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    )


def precision_auto(config: Config) -> Cure | None:
    """If training fails in the configured precision, use the precision that halfstep chooses for the card.

    Return None if the config does so already.
    """
    if config.get("precision", "auto") == "auto":
        return None
    return Cure(
        "config:precision-auto",
        f"precision {config['precision']} to auto",
        overrides={"precision": "auto"},
    )


def leave_label_padding(config: Config) -> Cure | None:
    """Turn label-padding off for a loss that does not ignore -100. Return None if the config already turns it off."""
    if config.get("fixers", {}).get("label-padding") == "never":
        return None
    return Cure(
        "config:leave-label-padding",
        "reverting label-padding",
        overrides={"fixers.label-padding": "never"},
    )


def free_port(config: Config) -> Cure | None:
    """Set the launcher's rendezvous port to a free port. Return None if `env:` sets a port."""
    if {"MASTER_PORT", "PET_MASTER_PORT"} & set(config.get("env", {})):
        return None
    return Cure(
        "config:free-port",
        "a free port for the launcher's rendezvous",
        # torchrun reads the defaults of its flags from PET_ variables; other scripts read MASTER_PORT.
        overrides={"env.MASTER_PORT": "{free_port}", "env.PET_MASTER_PORT": "{free_port}"},
    )


CONFIG_CURES: dict[str, Callable[[Config], Cure | None]] = {
    "plan-less-memory": plan_less_memory,
    "halve-batch": halve_batch,
    "expandable-segments": expandable_segments,
    "precision-auto": precision_auto,
    "free-port": free_port,
    "leave-label-padding": leave_label_padding,
}
