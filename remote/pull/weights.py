"""Pull a run's adapter. Every digest is verified, and nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path

from remote.errors import PullRefused
from remote.host import Host, Json
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.layout import ProjectLayout
from remote.protocol.quantities import size as quantity
from remote.pull.digests import cache_digests, digest_of
from remote.pull.folder import Folder, local_errors
from remote.pull.names import REPLACED, judge_names
from remote.pull.parts import Offered, Parts, Progress
from remote.pull.report import PulledFile, PulledState, PullReport

ADAPTER = "adapter"
PART = ".adapter.part"
LOCK = ".adapter.lock"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "model.safetensors")
WANTED = (".safetensors", ".json", ".txt", ".md", ".model", ".jinja")
PICKLED_WEIGHTS = ("adapter_model.bin",)
PICKLE = "it is a pickle: load it with weights_only=True and torch 2.10 or newer, or not at all"
MAX_BYTES = 64 * 2**30


def pull_weights(
    host: Host,
    project_key: str,
    run: str,
    folder: Path,
    *,
    checkpoint: str = "",
    progress: Progress = lambda done, total: None,
) -> PullReport:
    """Copy the run's adapter to `folder`/adapter and verify digests and safetensors headers.

    The new adapter replaces the old one by a rename; an old adapter with other content is kept as adapter.replaced-N.
    An interrupted pull is resumed. `checkpoint` selects a trainer checkpoint whose adapter is copied instead.
    `progress` is called with the bytes that have arrived and the total. Raises PullRefused, DiskFull, Busy, and
    RemoteFault if the run has no adapter.
    """
    source = {"run": ProjectLayout(project_key).run(run).root, **({"checkpoint": checkpoint} if checkpoint else {})}
    offered = parse_offer(host.ask("weights.list", source, timeout_s=600.0))
    names = judge_names((file.name for file in offered), plain=True)
    wanted = [file for file in offered if file.name in names.accepted and _is_wanted(file.name)]
    received = 0
    with Folder(folder) as opened, opened.locked(LOCK):
        if not _is_pulled(folder, wanted):
            _require_room(folder, sum(file.size_bytes for file in wanted))
            received = Parts(opened, PART, wanted).fetch(host, source, progress)
            _publish(folder, wanted)
    left = [(file.name, "not part of an adapter") for file in offered if not _is_wanted(file.name)]
    return PullReport(
        (
            *(_pulled(folder, file, received) for file in wanted),
            *(PulledFile(name, folder / ADAPTER, PulledState.REFUSED, reason=why) for name, why in names.refused),
            *(PulledFile(name, folder / ADAPTER, PulledState.LEFT, reason=why) for name, why in left),
        )
    )


def check_weights(folder: Path, sha256: str) -> Report:
    """Report if the local adapter's weights have another digest. Files are read only if their status has changed."""
    for name in WEIGHTS:
        path = folder / ADAPTER / name
        if path.is_file() and sha256 == digest_of(folder, path):
            return Report()
    where = str(folder / ADAPTER)
    return Report((Finding("adapter-missing", Severity.ERROR, "the run's adapter has not been pulled", where=where),))


def parse_offer(answer: Json) -> tuple[Offered, ...]:
    """Parse the host's list of files. Raises PullRefused if it is malformed, has no weights, or exceeds 64 GiB."""
    try:
        offered = tuple(Offered(str(name), int(size), str(sha256)) for name, size, sha256 in answer["files"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise PullRefused("the host's list of adapter files is malformed") from None
    if any(file.size_bytes < 0 for file in offered) or sum(file.size_bytes for file in offered) > MAX_BYTES:
        raise PullRefused(f"the host offers an adapter of more than {MAX_BYTES} bytes")
    if not any(_is_wanted(file.name) for file in offered):
        raise PullRefused("the host's adapter folder holds no adapter files")
    return offered


def _require_room(folder: Path, new_bytes: int) -> None:
    """Raise PullRefused if this adapter and those that earlier pulls have replaced exceed MAX_BYTES in all."""
    with local_errors(folder):
        replaced = [path for path in folder.glob(f"{ADAPTER}{REPLACED}*") if not path.is_symlink()]
        kept = [file.lstat().st_size for path in (folder / ADAPTER, *replaced) for file in path.rglob("*")]
    if sum(kept) + new_bytes > MAX_BYTES:
        names = f"{ADAPTER}, {ADAPTER}{REPLACED}2 and so on" if replaced else ADAPTER
        message = f"the adapters of this run would take more than {quantity(MAX_BYTES)} together"
        raise PullRefused(message, where=str(folder), hint=f"delete those that you do not need: {names}")


def _is_wanted(name: str) -> bool:
    return name.endswith(WANTED) or name in PICKLED_WEIGHTS


def _pulled(folder: Path, file: Offered, received: int) -> PulledFile:
    reason = PICKLE if file.name in PICKLED_WEIGHTS else ""
    added = file.size_bytes if received else 0
    return PulledFile(file.name, folder / ADAPTER / file.name, PulledState.WHOLE, file.size_bytes, added, reason)


def _is_pulled(folder: Path, files: list[Offered]) -> bool:
    adapter = folder / ADAPTER
    return all((adapter / file.name).is_file() for file in files) and all(
        digest_of(folder, adapter / file.name) == file.sha256 for file in files
    )


def _publish(folder: Path, files: list[Offered]) -> None:
    """Remove files of earlier pulls from the partial folder, and rename the folder to `adapter`."""
    part, adapter = folder / PART, folder / ADAPTER
    names = {file.name for file in files}
    with local_errors(adapter):
        for path in [path for path in part.rglob("*") if path.is_file()]:
            if path.relative_to(part).as_posix() not in names:
                path.unlink()
        if adapter.is_symlink() or adapter.exists():
            adapter.rename(_free_name(adapter))
        part.rename(adapter)
        cache_digests(folder, [(adapter / file.name, file.sha256) for file in files])


def _free_name(adapter: Path) -> Path:
    count = 2
    while (path := adapter.with_name(f"{adapter.name}{REPLACED}{count}")).exists():
        count += 1
    return path
