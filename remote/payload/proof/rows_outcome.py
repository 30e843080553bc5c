"""Whether the proof came to its end: the command failed, was too short, too slow, or could not be watched."""

from __future__ import annotations

import re
from typing import Iterator

from remote.payload.proof.blind import hooks_were_absent, why_nothing_was_seen
from remote.payload.proof.seen import Row, Seen, error, good, warning
from remote.protocol.proof import NotChecked

DTYPES_MEET = re.compile(
    r"should be the same|must have the same dtype|expected (?:scalar type|dtype|m1 and m2)|Found dtype"
)


def judge(seen: Seen) -> Iterator[Row]:
    """Rows about the command as a whole."""
    yield from _ended(seen)
    yield from _ranks(seen)
    for fault in [fault for rank in seen.ranks for fault in rank.get("faults", [])][:3]:
        yield NotChecked("hooks", fault.strip().splitlines()[-1] if fault.strip() else fault)


def _ended(seen: Seen) -> Iterator[Row]:
    crash = next((rank["error"] for rank in seen.ranks if rank.get("error")), None)
    if crash or seen.exit not in (None, 0):
        what = f"{crash['type']}: {crash['message'].splitlines()[0] if crash['message'] else ''}" if crash else ""
        last = what or _last_line(seen.output_tail) or f"exit {seen.exit}"
        yield error("command-failed", f"the training command failed: {last}")
        half = any(row["dtype"] == "float16" for row in seen.dtypes("trainable", "frozen"))
        if seen.waits_for_card and half and DTYPES_MEET.search(last):
            yield warning(
                "autocast",
                "Accelerate leaves autocast off on a CPU, where float16 weights met float32 inputs; not so on a card",
                hint="prove it on a host with a card; here only a base model in float32 trains",
            )
    elif not seen.attempts and (hooks_were_absent(seen) or not seen.timed_out):
        reason = why_nothing_was_seen(seen)
        yield warning("proof-blind", reason.message, hint=reason.hint)
    elif seen.timed_out:
        told = warning if seen.effective else error
        yield told(
            "proof-timeout",
            f"{len(seen.attempts)} optimizer steps in {seen.wall_s:.0f} s; {seen.request.steps} were wanted",
            hint="pipeline verify --no-proof",
        )
    elif not seen.effective:
        yield error("proof-short", f"nothing is proved: no optimizer step that counts was seen; {_why_none(seen)}")
    elif len(seen.effective) < seen.request.steps and seen.exit == 0:
        yield warning(
            "proof-short", f"the command ended by itself after {len(seen.effective)} optimizer steps that count"
        )
    else:
        yield good("command", f"{len(seen.attempts)} optimizer steps were seen, and the command was ended then")


def _why_none(seen: Seen) -> str:
    """What became of the steps that were tried."""
    skipped = sum(not row["applied"] for row in seen.attempts)
    return f"of {len(seen.attempts)} tried, {skipped} were skipped, the others had a learning rate of 0"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _ranks(seen: Seen) -> Iterator[Row]:
    world = max((int(rank.get("world", 1)) for rank in seen.ranks), default=0)
    if seen.ranks and len(seen.ranks) < world:
        yield warning("ranks", f"{len(seen.ranks)} of {world} processes reported")
