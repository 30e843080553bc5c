"""Tokenizer files come from the nearest source, and answers of a hub are verified."""

import pytest

from fixers.setup import tokenizer
from remote.errors import RemoteFault
from tests.fixers.hosts.tokenizer.model_site import FILE, REPO, leftovers, site_of
from tests.fixers.setup_rig import apply, put, remote_content
from tests.lab.hub import HTML, Fault


@pytest.mark.parametrize("at", [0, 1, 32768, -1], ids=["0", "1", "32768", "size-1"])
def test_FI_36_a_download_that_is_cut_is_retried_and_never_published(host, hub, whole, at):
    put(host, FILE, whole[:100])
    hub.faults["tokenizer.json"] = fault = Fault("cut", at % len(whole) if at >= 0 else len(whole) - 1, times=1)
    apply(host, tokenizer.plan(site_of(host, hub)))
    assert fault.fired == 1
    assert remote_content(host, FILE) == whole
    assert leftovers(host) == []


FALSE_BYTES = {
    "html": (Fault("html"), f"has size {len(HTML)}"),
    "pointer": (Fault("pointer"), "has size 13"),
    "flipped": (Fault("flip"), "sha256"),
}


@pytest.mark.parametrize(("fault", "words"), FALSE_BYTES.values(), ids=FALSE_BYTES)
def test_FI_37_a_response_200_with_wrong_bytes_is_refused(host, hub, whole, fault, words):
    before = whole[:32768]
    put(host, FILE, before)
    hub.faults["tokenizer.json"] = Fault(fault.kind)
    plan = tokenizer.plan(site_of(host, hub))
    with pytest.raises(RemoteFault) as refusal:
        apply(host, plan)
    assert hub.faults["tokenizer.json"].fired == 3
    assert refusal.value.kind == "torn"
    assert words in refusal.value.message
    assert remote_content(host, FILE) == before
    assert leftovers(host) == []


def test_FI_37_one_wrong_response_is_retried(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.faults["tokenizer.json"] = fault = Fault("html", times=1)
    apply(host, tokenizer.plan(site_of(host, hub)))
    assert fault.fired == 1
    assert remote_content(host, FILE) == whole


def test_SE_a_file_that_is_larger_than_any_tokenizer_is_not_downloaded(host, hub, whole):
    before = whole[:32768]
    put(host, FILE, before)
    plan = tokenizer.plan(site_of(host, hub))
    plan.changes[0].args["digest"]["size"] = 45 * 10**9
    asked = len(hub.requests)
    with pytest.raises(RemoteFault, match="has 45000000000 bytes"):
        apply(host, plan)
    assert remote_content(host, FILE) == before
    assert len(hub.requests) == asked


def test_a_repository_that_the_hub_does_not_have_is_reported_and_nothing_is_planned(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.repositories.clear()
    plan = tokenizer.plan(site_of(host, hub))
    assert plan.empty
    assert "no valid copy is available" in plan.findings[0].message
    assert "fixers.tokenizer.repo" in plan.findings[0].hint


def test_a_gated_repository_is_reported_with_how_to_get_access(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.repositories[REPO].gated = True
    with pytest.raises(RemoteFault) as refusal:
        apply(host, tokenizer.plan(site_of(host, hub)))
    assert refusal.value.kind == "gated"
    assert remote_content(host, FILE) == whole[:32768]


def test_a_gated_repository_is_accessible_with_the_token_of_the_host(host, hub, whole):
    put(host, FILE, whole[:32768])
    hub.repositories[REPO].gated, hub.repositories[REPO].token = True, "hf_lab"
    apply(host, tokenizer.plan(site_of(host, hub, environment={"HF_TOKEN": "hf_lab"})))
    assert remote_content(host, FILE) == whole


def test_a_hub_that_cannot_be_reached_is_reported(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub, environment={"HF_ENDPOINT": "http://127.0.0.1:9"}))
    assert plan.empty
    assert "HF_ENDPOINT" in plan.findings[0].hint


def test_offline_mode_sends_no_request(host, hub, whole):
    put(host, FILE, whole[:32768])
    plan = tokenizer.plan(site_of(host, hub, environment={"HF_HUB_OFFLINE": "1"}))
    assert plan.empty
    assert "HF_HUB_OFFLINE" in plan.findings[0].hint
    assert hub.requests == []
