"""Large data is sent once, under its digest, and resumed after a lost connection."""

from __future__ import annotations

import itertools
import os

import pytest

from remote.errors import SyncRefused
from remote.project.data import scan_data
from remote.sync.data import send_data
from tests.lab.payload import install_payload
from tests.remote.sync.sync_bench import Bench, CuttingStarter, contents, no_wait

KEY = "speech-12345678"


def test_data_is_stored_whole_under_its_digest_and_sent_once(bench, data):
    scan = scan_data(data)
    place = send_data(bench.host, scan, KEY)
    assert place == str(bench.workdir / "projects" / KEY / "data" / scan.digest)
    assert contents(bench.workdir / "projects" / KEY / "data" / scan.digest) == contents(data)
    moved = []
    assert send_data(bench.host, scan, KEY, progress=lambda *a: moved.append(a)) == place and not moved


def test_a_single_file_can_be_data(bench, data):
    scan = scan_data(data / "index.json")
    place = send_data(bench.host, scan, KEY)
    assert os.listdir(place) == ["index.json"]


@pytest.mark.parametrize("after", [1, 300_000, 650_000, 1_190_000])
def test_FI_04_a_cut_resends_only_what_is_missing(tmp_path, data, after):
    starter = CuttingStarter(after=2_000 + after)
    bench = Bench(tmp_path / "p", install_payload(tmp_path / "workdir", byte_code=False), starter)
    bench.root.mkdir()
    bench.other_host().ask("data.survey", {"project": KEY, "digest": "0" * 64})  # the payload is already on the host
    moved: list[int] = []
    send_data(bench.host, scan_data(data), KEY, wait=no_wait, progress=lambda done, total: moved.append(done))
    assert starter.hits == 1
    (place,) = (bench.workdir / "projects" / KEY / "data").glob("?" * 64)
    assert contents(place) == contents(data)
    restart = next((now for before, now in itertools.pairwise(moved) if now < before), moved[-1])
    assert restart > after - 2 * 2**18 - 30_000
    bench.close()


def test_a_part_that_was_damaged_meanwhile_is_discarded(bench, data):
    scan = scan_data(data)
    part = bench.workdir / "projects" / KEY / "data" / f"{scan.digest}.partial/wavs/.hs-part-0.wav"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"\0" * 1000)
    with pytest.raises(SyncRefused):
        send_data(bench.host, scan, KEY)
    assert not part.exists()
    assert contents(bench.workdir / send_data(bench.host, scan, KEY)) == contents(data)
