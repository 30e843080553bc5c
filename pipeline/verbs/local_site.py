"""A folder here as fixers see it, for a card that `--card` names because no host is asked."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from pipeline.config.load import LoadedConfig
from remote.errors import BadUsage
from remote.policy.cards import UnknownCard, parse_card
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Gpu

NO_CARD = Finding(
    "no-card", Severity.WARNING, "no card was named: nothing is rewritten for one", "--card", "--card titan-rtx"
)


def local_site(root: Path, card: str, loaded: LoadedConfig | None) -> Site:
    """The folder, with what its config says of fixers where one was named. Raises BadUsage for an unknown card."""
    tree, gpu = DiskTree(root), assumed_card(card)
    if loaded is None:
        return Site(tree=tree, gpu=gpu)
    settings = loaded.config.fixers.model_extra or {}
    return Site(tree=tree, gpu=gpu, environment=loaded.config.env, settings=settings, config=loaded.as_json())


def judge_card(site: Site) -> tuple[Finding, ...]:
    """What is left out of a plan because nobody said for which card."""
    return (NO_CARD,) if site.gpu is None else ()


def assumed_card(card: str) -> Gpu | None:
    """The card of that name or capability; None where none was named. Raises BadUsage with the nearest names."""
    if not card:
        return None
    try:
        name, capability = parse_card(card)
    except UnknownCard as error:
        instead = (card, error.near) if error.near else None
        raise BadUsage(str(error), where="--card", hint="--card titan-rtx", instead=instead) from None
    return Gpu(0, "", name, capability, 0, assumed=True)
