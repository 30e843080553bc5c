"""The changes of source fixers for each file of a project, whether or not its programs are proved to work with them."""

from collections.abc import Iterable

from fixers.frame.change import Plan
from fixers.frame.site import Site
from fixers.plans import site_plan
from fixers.plans.chosen_fixers import chosen_names
from fixers.sources.python import TREES


def plan_offers(site: Site, *, only: Iterable[str] | None = None) -> Plan:
    try:
        return site_plan.plan_offers(site, chosen_names(site, only)).plan
    finally:
        TREES.clear()
