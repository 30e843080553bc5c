"""Planned faults. Each has a condition, counts its hits, and fails the test if it never happened."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum


class Fault(Enum):
    """A fault of a connection."""

    RESET = "the connection is reset (RST)"
    CLOSE = "the connection is closed (FIN)"
    BLACK_HOLE = "everything is accepted and nothing passed on, in both directions"
    FLIP = "one bit of the next byte is turned over"
    STALL = "nothing is passed on for a while"
    REFUSE = "the connection is closed before its first byte"


@dataclass
class Plan:
    """`fault` happens to the first `times` connections whose `direction` has carried `after` bytes."""

    fault: Fault
    direction: str = "up"
    after: int = 0
    times: int = 1
    seconds: float = 0.0
    hits: int = 0


@dataclass
class Injector:
    """The planned faults of one test."""

    plans: list[Plan] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, fault: Fault, **where: object) -> Plan:
        """Add a planned fault; see Plan. Its `hits` count how often it happened."""
        plan = Plan(fault, **where)  # type: ignore[arg-type]
        self.plans.append(plan)
        return plan

    def strikes(self, direction: str, carried: int) -> Plan | None:
        """Return the plan whose fault happens now, after counting the hit."""
        with self._lock:
            for plan in self.plans:
                if plan.direction == direction and plan.hits < plan.times and carried >= plan.after:
                    plan.hits += 1
                    return plan
        return None

    def next_limit(self, direction: str, carried: int) -> int | None:
        """Return the number of bytes that may pass before the next planned fault, or None if no plan is left."""
        open_plans = [p for p in self.plans if p.direction == direction and p.hits < p.times]
        return min((max(0, p.after - carried) for p in open_plans), default=None)

    def check(self) -> None:
        """Raise AssertionError if a planned fault never happened, because the test has then proved nothing."""
        silent = [plan for plan in self.plans if plan.hits == 0]
        assert not silent, f"planned faults that did not fire: {silent}"
