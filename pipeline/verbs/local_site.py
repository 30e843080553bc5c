"""Build the fixers' site for a local folder and the card given by `--card`."""

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
    "no-card",
    Severity.WARNING,
    "no card was given, so fixers that depend on the card change nothing",
    "--card",
    "--card titan-rtx",
)


def local_site(root: Path, card: str, loaded: LoadedConfig | None) -> Site:
    """Return the folder as a site, with the fixer settings of its config. Raises BadUsage for an unknown card."""
    tree, gpu = DiskTree(root), assumed_card(card)
    if loaded is None:
        return Site(tree=tree, gpu=gpu)
    settings = loaded.config.fixers.model_extra or {}
    return Site(tree=tree, gpu=gpu, environment=loaded.config.env, settings=settings, config=loaded.as_json())


def judge_card(site: Site) -> tuple[Finding, ...]:
    """Return a warning if no card was given."""
    return (NO_CARD,) if site.gpu is None else ()


def assumed_card(card: str) -> Gpu | None:
    """Return the card with the name or compute capability `card`, or None if `card` is "". Raises BadUsage."""
    if not card:
        return None
    try:
        name, capability = parse_card(card)
    except UnknownCard as error:
        instead = (card, error.near) if error.near else None
        raise BadUsage(str(error), where="--card", hint="--card titan-rtx", instead=instead) from None
    return Gpu(0, "", name, capability, 0, assumed=True)
