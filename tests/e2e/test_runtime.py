"""`pipeline run` of a project whose model is installed code in float16: refused, and trained with runtime: auto."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.driver import Example, falls

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]

PACKAGE = """
import torch

def load():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).half()
"""
SCRIPT = """
import torch
import speechpack

model = speechpack.load()
optimizer = getattr(torch.optim, "Adam" + "W")(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
inputs = torch.randn(64, 8)
wanted = inputs.sum(1, keepdim=True).sin()
for step in range(40):
    with torch.autocast("cpu", torch.float16):
        out = model(inputs)
    loss = (out.float() - wanted).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(f"loss: {loss.item():.5f}")
"""


def test_installed_half_precision_code_is_rejected_and_trains_with_the_runtime(tmp_path: Path) -> None:
    installed = tmp_path / "lib" / "site-packages"
    project = tmp_path / "project"
    for folder in (installed, project / "configs" / "hosts", tmp_path / "home"):
        folder.mkdir(parents=True)
    (installed / "speechpack.py").write_text(PACKAGE)
    (project / "train.py").write_text(SCRIPT)
    (project / "configs" / "hosts" / "local.yaml").write_text("host: local\ncard: titan-rtx\nworkdir: ~/halfstep\n")
    (project / "configs" / "plain.yaml").write_text(
        "project: .\ncommand: [python, train.py]\nfixers: {trainable-fp32: never}\n"
        f"env: {{PYTHONPATH: {installed}}}\n"
    )
    user = Example("plain", project, tmp_path / "home")
    refused = user.go("--no-heal")
    assert refused.exit == 23, refused.text
    (dtype,) = [finding for finding in refused.json["findings"] if finding["check"] == "trainable-dtype"]
    assert "float16 entered at speechpack.py:6, called at train.py:5" in dtype["message"]
    assert dtype["hint"] == "fixers: {runtime: auto}"
    assert (
        "runtime: auto applies fp16-mixed"
        in user.pipeline(
            "plan", "--host", "local", "--config", "plain", "--set", "fixers.runtime=auto", as_json=False
        ).text
    )
    trained = user.go("--set", "fixers.runtime=auto")
    assert trained.exit == 0, trained.text
    assert "fp16-mixed (runtime: auto) trains on this CPU, not proved on the assumed card" in trained.text
    log = user.job_logs()[-1].read_text()
    assert "halfstep runtime: cast 4 trained tensors from float16 to float32 before AdamW was made at train.py:6" in log
    assert falls(user.job_losses())
    again = user.go("--set", "fixers.runtime=auto")
    assert set(again.stages.values()) == {"skipped"}
