"""The request and the report of a proof, which runs the real command for a few optimizer steps under hooks."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import CheckName, Finding, Report
from remote.protocol.hidden import Identifier, Message, Output
from remote.protocol.precision import PrecisionPlan
from remote.protocol.quantities import duration


@dataclass(frozen=True)
class ProofRequest:
    """The command to prove. Paths are on the host.

    The proof copies the tree `source`, or the project's tree if `source` is "". `argv` may contain the placeholders of
    a job's argv. `adapters` contains the names of the adapters to train, or () if the config does not name them.
    `run_steps` is the length of the whole run, for the ETA. `secrets` maps names to values, which are never written to
    disk. `card_seen` is True if the host's driver lists the card; training on the CPU is then an error. `data` is the
    same as in `JobSpec`. `slurm` contains the srun options to run the proof on a compute node, or None to run it on the
    host itself.
    """

    project: str
    argv: Tuple[str, ...]
    plan: PrecisionPlan
    capability: Optional[Tuple[int, int]] = None
    card_seen: bool = False
    source: str = ""
    environment: Dict[str, str] = field(default_factory=dict)
    secrets: Dict[str, str] = field(default_factory=dict)
    adapters: Tuple[str, ...] = ()
    steps: int = 2
    attempts: int = 12
    deadline_s: float = 900.0
    run_steps: Optional[int] = None
    data: Dict[str, str] = field(default_factory=dict)
    slurm: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class NotChecked:
    """A check that could not be run, and the reason."""

    check: CheckName
    reason: Message


@dataclass(frozen=True)
class DtypeRow:
    """The number and size of tensors of one dtype. `kind` is trainable, frozen, buffer or state (optimizer state)."""

    kind: Identifier
    dtype: Identifier
    tensors: int
    elements: int
    bytes: int
    examples: Tuple[Identifier, ...] = ()


@dataclass(frozen=True)
class HalfOrigin:
    """A place where half precision was introduced.

    `kind` is autocast, trained, frozen (tensors), accelerator or trainer. `used` is the innermost line of the project
    on the stack, or "". `source` is the place of the setting from which the value came, or "" if several settings
    contain the value or if the setting is on the line `used`. `installed` is the line of installed code that made the
    call, or "".
    """

    kind: Identifier
    dtype: Identifier
    used: Identifier
    source: Identifier = ""
    installed: Identifier = ""
    tensors: int = 0


@dataclass(frozen=True)
class ProvedStep:
    """One attempted optimizer step of rank 0.

    `loss` is the sum of the losses of its micro-batches, as the script scaled them. A script with gradient accumulation
    divides each loss by the number of micro-batches, so the sum is the mean of the step. `learning_rate` is None if it
    cannot be read.
    """

    applied: bool
    seconds: float
    loss: Optional[float] = None
    grad_norm: Optional[float] = None
    scale: Optional[float] = None
    learning_rate: Optional[float] = None


@dataclass(frozen=True)
class ProofReport:
    """The result of a proof.

    `findings` has a finding for each check that was run, with severity info if the check passed. `unseen` contains the
    checks that could not be run. Bytes are per process; `total_bytes` is None without a card. `exit` is the exit
    status of the command, or None if the proof ended it as planned. `memory` describes the memory plan of the built-in
    trainer. `hooked_torch` and `hooked_torchrun` are True if the hooks ran in a process that imported torch, and in a
    torchrun.
    """

    findings: Tuple[Finding, ...]
    unseen: Tuple[NotChecked, ...] = ()
    dtypes: Tuple[DtypeRow, ...] = ()
    steps: Tuple[ProvedStep, ...] = ()
    device: Identifier = ""
    ranks: int = 0
    attention: Tuple[Identifier, ...] = ()
    step_seconds: Optional[float] = None
    eta_s: Optional[float] = None
    peak_bytes: Optional[int] = None
    total_bytes: Optional[int] = None
    wall_s: float = 0.0
    exit: Optional[int] = None
    output_tail: Output = ""
    origins: Tuple[HalfOrigin, ...] = ()
    memory: str = ""
    hooked_torch: bool = False
    hooked_torchrun: bool = False

    @property
    def ok(self) -> bool:
        """True if no check found an error."""
        return self.report.ok

    @property
    def blind(self) -> Optional[Finding]:
        """The finding that explains why the hooks recorded no optimizer step, or None if there is no such finding."""
        return next((finding for finding in self.findings if finding.check == "proof-blind"), None)

    @property
    def too_slow(self) -> Optional[Finding]:
        """The finding about slow steps, or None if there is no such finding or if another check failed too."""
        errors = self.report.errors
        return errors[0] if {finding.check for finding in errors} == {"proof-timeout"} else None

    @property
    def explains_failure(self) -> bool:
        """True if the command failed and the first finding is more specific than `command-failed`."""
        return bool(self.exit and self.findings) and self.findings[0].check != "command-failed"

    @property
    def loading_s(self) -> float:
        """The seconds that the command spent outside of optimizer steps: imports, model, data."""
        return max(0.0, self.wall_s - sum(step.seconds for step in self.steps))

    @property
    def applied(self) -> int:
        return sum(step.applied for step in self.steps)

    @property
    def skipped(self) -> int:
        return len(self.steps) - self.applied

    @property
    def report(self) -> Report:
        """The findings, with the measurements as facts."""
        return Report(self.findings, tuple(_facts(self)))


def _facts(report: ProofReport) -> Tuple[Tuple[str, str], ...]:
    facts = [("device", report.device), ("optimizer steps", f"{report.applied} applied, {report.skipped} skipped")]
    if report.step_seconds is not None:
        facts.append(("seconds per step", f"{report.step_seconds:.3g}"))
    if report.eta_s is not None:
        facts.append(("all steps", f"about {duration(report.eta_s)}"))
    if report.peak_bytes is not None:
        of = f" of {report.total_bytes / 2**30:.1f}" if report.total_bytes else ""
        facts.append(("peak memory", f"{report.peak_bytes / 2**30:.2f}{of} GiB"))
    if report.memory:
        facts.append(("memory plan", report.memory))
    for unseen in report.unseen:
        facts.append((f"not checked: {unseen.check}", unseen.reason))
    return tuple(facts)
