"""A hostile host cannot make a sync send without end."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from remote.errors import ConnectionLost, Garbled, RemoteFault, SyncRefused
from remote.host import Json
from remote.project.data import scan_data
from remote.protocol.exits import ExitCode
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import TreeSurvey
from remote.protocol.values import encode
from remote.sync.agreed import fetch_host_manifest
from remote.sync.data import send_data
from remote.sync.sync import CHANGES, DAMAGED_TRANSFERS, sync_project
from tests.lab.fake_host import FakeHost
from tests.remote.sync.sync_bench import Bench, no_wait

MOST = DAMAGED_TRANSFERS + CHANGES
Torn = Callable[[Sequence[str], int], Sequence[str]]


class Hostile(FakeHost):
    """A host that answers each transfer with the digests from `torn`, and counts the transfers."""

    transfers = 0
    torn: Torn = staticmethod(lambda digests, number: [])
    digests: tuple[str, ...] = ()

    def fetch(self, op: str, args: Any, sink: Any, *, limit: int, timeout_s: float = 60.0) -> Json:
        sink(zlib.compress(b'{"version":1,"rows":{},"staged":{}}'))
        return {}

    def send(self, op: str, args: Any, chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        self.transfers += 1
        assert self.transfers <= MOST, "the sync sends without end"
        for _ in chunks:
            pass
        return {"torn": list(self.torn(self.digests, self.transfers)), "survey": None}


def one_by_one(digests: Sequence[str], number: int) -> Sequence[str]:
    """Return another digest for each transfer."""
    return [digests[number % len(digests)]]


@pytest.mark.parametrize(
    ("torn", "most", "error"),
    [
        (lambda digests, number: [], 1, Garbled),
        (lambda digests, number: ["0" * 64], 1, Garbled),
        (lambda digests, number: [""], 1, Garbled),
        (lambda digests, number: digests[:1], 2, SyncRefused),
        (one_by_one, DAMAGED_TRANSFERS, SyncRefused),
    ],
    ids=["nothing damaged", "content that was not sent", "no digest", "one file", "another file each time"],
)
def test_BI_53_a_host_that_never_accepts_a_transfer_gets_a_limited_number(
    bench: Bench, torn: Torn, most: int, error: type[Exception]
) -> None:
    bench.write({f"part{number}.py": f"number = {number}\n" for number in range(2 * MOST)})
    scan, host = bench.scan(), Hostile()
    host.torn = torn
    host.digests = tuple(sorted({row.source for row in scan.manifest.rows.values()}))
    with pytest.raises(error):
        sync_project(host, scan, TreeSurvey(exists=False), wait=no_wait)
    assert host.transfers == most


@pytest.mark.parametrize("size", [-1, -(2**60)])
def test_BI_53_a_negative_number_of_arrived_bytes_is_refused_before_anything_is_sent(data: Any, size: int) -> None:
    scan = scan_data(data)
    name = next(iter(scan.files))
    host = FakeHost(operations={"data.survey": lambda _: {"path": "", "have": {name: size}, "free_bytes": 2**62}})
    with pytest.raises(Garbled, match="negative"):
        send_data(host, scan, "speech-12345678", wait=no_wait)
    assert host.calls == [("ask", "data.survey")] and not host.sent


class Lost(Hostile):
    """A host whose connection is lost during the first transfer."""

    def send(self, op: str, args: Any, chunks: Iterable[bytes], *, timeout_s: float = 60.0) -> Json:
        raise ConnectionLost("cut")


class Newer(Hostile):
    """A host with the manifest of a newer version."""

    def fetch(self, op: str, args: Any, sink: Any, *, limit: int, timeout_s: float = 60.0) -> Json:
        sink(zlib.compress(b'{"version":2,"rows":[],"staged":{}}'))
        return {}


@pytest.mark.parametrize("field", ["files", "staged", "free_bytes"])
def test_BI_53_a_negative_number_in_the_tree_of_a_resumed_sync_is_refused(bench: Bench, field: str) -> None:
    host = Lost(operations={"tree.survey": lambda _: {**encode(TreeSurvey(exists=True)), field: -1}})
    with pytest.raises(Garbled, match=f"{field}: a negative number"):
        sync_project(host, bench.scan(), TreeSurvey(exists=False), wait=no_wait)


@pytest.mark.parametrize(
    "manifest",
    [
        {"rows": {}, "staged": {"0" * 64: -1}},
        {"rows": {"a.py": ["0" * 64, "0" * 64, 0o644, -1, "", {}]}, "staged": {}},
        {"rows": {"a.py": ["0" * 64, "0" * 64, -1, 1, "", {}]}, "staged": {}},
    ],
)
def test_BI_53_a_negative_number_in_the_manifest_is_refused(bench: Bench, manifest: Json) -> None:
    packed = zlib.compress(json.dumps({"version": 1, **manifest}).encode())
    host = FakeHost(operations={"tree.manifest": lambda _: {}}, streams={"tree.manifest": [packed]})
    with pytest.raises(Garbled, match="negative"):
        fetch_host_manifest(host, bench.scan())


@pytest.mark.parametrize("codecs", [(), ("zstd",), ("", "ZLIB", "zlib ")])
@pytest.mark.parametrize("outdated", [False, True], ids=["first survey", "later survey"])
def test_BI_53_a_host_without_a_usable_codec_gets_no_transfer(
    bench: Bench, codecs: tuple[str, ...], outdated: bool
) -> None:
    tree = TreeSurvey(exists=True, codecs=codecs)
    usable = TreeSurvey(exists=True)
    host = (Lost if outdated else Hostile)(operations={"tree.survey": lambda _: encode(tree)})
    with pytest.raises(Garbled, match="no name of a compression format") as refused:
        sync_project(host, bench.scan(), usable if outdated else tree, wait=no_wait)
    assert refused.value.exit_code is ExitCode.TEMPORARY
    assert host.transfers == 0


@pytest.mark.parametrize("version", [2, 3.5, 10**200])
def test_BI_53_a_manifest_of_a_newer_version_is_an_error_with_its_own_hint(bench: Bench, version: float) -> None:
    packed = zlib.compress(json.dumps({"version": version, "rows": {}, "staged": {}}).encode())
    host = FakeHost(operations={"tree.manifest": lambda _: {}}, streams={"tree.manifest": [packed]})
    scan = bench.scan()
    with pytest.raises(RemoteFault, match="newer than 1") as refused:
        fetch_host_manifest(host, scan)
    assert (refused.value.kind, refused.value.exit_code) == ("newer", ExitCode.USAGE)
    assert refused.value.hint == "upgrade halfstep on the laptop"
    assert refused.value.where == f"{host.workdir}/{ProjectLayout(scan.project).manifest}"


def test_BI_53_a_sync_ends_at_a_manifest_of_a_newer_version(bench: Bench) -> None:
    """The survey does not show the version, so the sync notices it when it fetches the manifest."""
    host = Newer()
    with pytest.raises(RemoteFault, match="newer than 1"):
        sync_project(host, bench.scan(), TreeSurvey(exists=True, files=1, source_digest="0" * 64), wait=no_wait)
    assert host.transfers == 0
