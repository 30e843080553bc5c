"""Access of the host to a model, queried from a hub on loopback."""

import http.server
import sys
import threading
import zlib

import pytest

from fixers.setup import hub_access
from remote.link.local import local_host
from remote.protocol.findings import Severity
from remote.protocol.machine import Interpreter
from tests.fixers.setup_rig import site_at, survey_of
from tests.lab.hub import COMMIT, Hub, Repository, serve
from tests.lab.payload import install_payload

REPO = "lab/speech-model"
ERROR, WARNING = Severity.ERROR, Severity.WARNING


@pytest.fixture
def hub():
    with serve(Hub({REPO: Repository({"config.json": b"{}"})})) as served:
        yield served


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(install_payload(tmp_path / "host")))
    yield agent
    agent.close()


def plan_of(host, hub, tmp_path, **known):
    environment = {**hub.environment, "HF_HOME": str(tmp_path / "hf"), **known.pop("environment", {})}
    environment = {name: value for name, value in environment.items() if name != "HF_TOKEN" or value}
    survey = survey_of(interpreter=Interpreter(sys.executable))
    tokens = known.pop("tokens", {})
    config = {"model": {"id": REPO, "revision": COMMIT}, **known}
    return hub_access.plan(site_at(host, survey=survey, environment=environment, secrets=tokens, config=config))


def test_an_accessible_model_causes_no_finding(host, hub, tmp_path):
    assert plan_of(host, hub, tmp_path) == hub_access.Plan()
    assert any("/revision/" in request for request in hub.requests)


def test_a_cached_model_is_not_queried(host, hub, tmp_path):
    snapshot = tmp_path / "hf" / "hub" / "models--lab--speech-model" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_text("x")
    assert plan_of(host, hub, tmp_path, environment={"HF_HUB_OFFLINE": "1"}) == hub_access.Plan()
    assert hub.requests == []
    (snapshot / "model-2.safetensors").symlink_to("../../blobs/gone")
    assert "forbids" in plan_of(host, hub, tmp_path, environment={"HF_HUB_OFFLINE": "1"}).findings[0].message


def test_offline_with_an_empty_cache_is_an_error(host, hub, tmp_path):
    (finding,) = plan_of(host, hub, tmp_path, environment={"HF_HUB_OFFLINE": "1"}).findings
    assert finding.severity is ERROR
    assert "HF_HUB_OFFLINE" in finding.message
    assert hub.requests == []


def test_a_repository_that_the_hub_hides_is_an_error_that_mentions_the_token(host, hub, tmp_path):
    hub.repositories.clear()
    (finding,) = plan_of(host, hub, tmp_path).findings
    assert finding.severity is ERROR
    assert "the host has no token" in finding.message


def test_missing_access_is_only_a_warning_if_the_job_will_have_a_token(host, hub, tmp_path):
    hub.repositories.clear()
    (finding,) = plan_of(host, hub, tmp_path, secrets=["HF_TOKEN"]).findings
    assert finding.severity is WARNING


def test_a_token_of_the_laptop_gives_access_to_a_private_model_and_is_not_stored(host, hub, tmp_path):
    hub.repositories[REPO] = Repository({"config.json": b"{}"}, private=True, token="hf_secret")
    assert plan_of(host, hub, tmp_path, secrets=["HF_TOKEN"]).findings[0].severity is WARNING
    opened = plan_of(host, hub, tmp_path, secrets=["HF_TOKEN"], tokens={"HF_TOKEN": "hf_secret"})
    assert opened == hub_access.Plan()
    (refused,) = plan_of(host, hub, tmp_path, secrets=["HF_TOKEN"], tokens={"HF_TOKEN": "hf_wrong"}).findings
    assert refused.severity is ERROR
    kept = [file for file in tmp_path.rglob("*") if file.is_file() and b"hf_secret" in file.read_bytes()]
    assert kept == []


def test_a_mirror_that_does_not_answer_is_an_error(host, hub, tmp_path):
    (finding,) = plan_of(host, hub, tmp_path, environment={"HF_ENDPOINT": "http://127.0.0.1:9"}).findings
    assert finding.severity is ERROR
    assert "HF_ENDPOINT" in finding.hint


def test_a_missing_revision_is_an_error(host, hub, tmp_path):
    (finding,) = plan_of(host, hub, tmp_path, model={"id": REPO, "revision": "f" * 40}).findings
    assert "model.revision" in finding.hint


@pytest.mark.parametrize("model", [None, {"id": "tiny/phi4-multimodal"}, {"id": "/data/model"}, {"id": "./model"}])
def test_a_model_outside_of_the_hub_is_not_queried(host, hub, tmp_path, model):
    assert plan_of(host, hub, tmp_path, model=model) == hub_access.Plan()
    assert hub.requests == []


def test_SE_03_a_query_of_the_hub_runs_nothing_of_the_project(host, hub, tmp_path):
    marker = tmp_path / "ran"
    for module in ("sitecustomize", "usercustomize", "huggingface_hub"):
        (tmp_path / "evil").mkdir(exist_ok=True)
        (tmp_path / "evil" / f"{module}.py").write_text(f"open({str(marker)!r}, 'w')")
    environment = {"PYTHONPATH": str(tmp_path / "evil"), "PYTHONSTARTUP": str(tmp_path / "evil/sitecustomize.py")}
    assert plan_of(host, hub, tmp_path, environment=environment) == hub_access.Plan()
    assert any("/revision/" in request for request in hub.requests)
    assert not marker.exists()


@pytest.mark.parametrize("where", ["file", "variable"])
def test_SE_03_a_token_of_the_host_is_not_sent_to_a_server_that_a_config_selects(
    host, hub, tmp_path, monkeypatch, where
):
    hub.repositories[REPO] = Repository({"config.json": b"{}"}, private=True, token="hf_of_the_host")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_of_the_host" if where == "file" else "")
    if where == "variable":
        monkeypatch.setenv("HF_TOKEN", "hf_of_the_host")
    environment = {"HF_TOKEN": "$HF_TOKEN"} if where == "variable" else {}
    finding = plan_of(host, hub, tmp_path, environment=environment).findings[-1]
    assert finding.severity is WARNING
    assert "the host's token was not sent, because the config sets HF_ENDPOINT" in finding.message
    assert not any("hf_of_the_host" in sent for sent in hub.authorizations)
    assert hub.authorizations


def test_SE_09_an_endless_compressed_answer_of_a_server_ends_in_bounded_memory(host, hub, tmp_path):
    compressor = zlib.compressobj(wbits=31)
    start = compressor.compress(b"[") + compressor.flush(zlib.Z_FULL_FLUSH)
    # After a full flush, a block does not depend on those before it: 96 equal blocks decompress to 1.5 GiB.
    bomb = start + 96 * (compressor.compress(b" " * 2**24) + compressor.flush(zlib.Z_FULL_FLUSH))

    class Bomb(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(bomb)))
            self.end_headers()
            self.wfile.write(bomb)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bomb) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        findings = plan_of(host, hub, tmp_path, environment=environment).findings
        server.shutdown()
    assert [finding.check for finding in findings] == ["hub-access"]
    assert "Unable to allocate" in findings[0].message or "MemoryError" in findings[0].message


def test_a_token_of_the_host_is_sent_to_the_server_that_the_host_itself_uses(host, hub, tmp_path, monkeypatch):
    hub.repositories[REPO] = Repository({"config.json": b"{}"}, private=True, token="hf_of_the_host")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_of_the_host")
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    assert plan_of(host, hub, tmp_path) == hub_access.Plan()
