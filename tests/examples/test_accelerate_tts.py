"""accelerate-tts: a cast after Adam was created, a config with bfloat16 and a port in use, and an occupied card."""

from __future__ import annotations
from tests.lab.wait import PATIENCE_S

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from tests.examples.driver import Example, falls
from tests.lab.cards import Card, write_nvidia_smi

NAME = "accelerate-tts"
LERP = "RuntimeError: expected dtype float for `end` but got dtype c10::BFloat16"
PORT = 29500
TITAN_ALONE = Card("NVIDIA TITAN RTX", "7.5", 24576, compute_mode="Exclusive_Process")

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]


@contextlib.contextmanager
def port_held() -> Iterator[None]:
    """Another process listens on port 29500, on an address that the launcher does not try first."""
    with socket.socket() as held:
        with contextlib.suppress(OSError):
            held.bind(("127.0.0.2", PORT))
            held.listen()
        yield


def test_each_fixer_uncovers_the_next_fault(example):
    tts = example(NAME)
    with port_held():
        no_port = tts.train()
        assert no_port.exit != 0
        assert f"port: {PORT}" in no_port.text
        assert "EADDRINUSE" in no_port.text
        assert diagnose_text(no_port.text)[0].check == "port-in-use"

        assert tts.fix("--only", "port").exit == 0
        late_cast = tts.train()
        assert late_cast.exit != 0
        assert LERP in late_cast.text
        assert diagnose_text(late_cast.text)[0].check == "lerp-end-bf16"

        assert tts.fix().exit == 0
        launch, script = (tts.root / "accelerate.yaml").read_text(), (tts.root / "src/train_tts.py").read_text()
        assert "mixed_precision: fp16\n" in launch
        assert "main_process_port: 0\n" in launch
        assert "model.to(torch.float16)\n    for parameter in model.parameters():" in script
        trained = tts.train()
    assert trained.exit == 0, trained.text
    assert len(trained.losses) == 64
    assert falls(trained.losses, to=0.5)
    assert (tts.root / "out" / "acoustic_model.pt").is_file()


@pytest.mark.parametrize(
    ("off", "named", "cures"),
    [
        (["port"], "port-in-use", ["port"]),
        (["bf16-to-fp16", "trainable-fp32"], "fp16-unscale", ["bf16-to-fp16", "trainable-fp32"]),
    ],
)
def test_without_its_fixers_each_fault_is_diagnosed_and_cured(example, off, named, cures):
    tts = example(NAME)
    with port_held():
        healed = tts.go(*(word for fixer in off for word in ("--set", f"fixers.{fixer}=off")))
    assert healed.exit == 0, healed.text
    assert healed.json["job"]["state"] == "succeeded"
    messages = [one["message"] for one in healed.json["findings"] if one["check"] == "healed"]
    assert any(message.startswith(f"{named}:") for message in messages), messages
    assert healed.json["cures"] == [f"fixer:{cure}" for cure in cures]


def test_without_bf16_to_fp16_the_later_cast_is_enough(example):
    """trainable-fp32 casts what `.to(torch.bfloat16)` has changed back to float32, so that no cure is needed."""
    ran = example(NAME).go("--set", "fixers.bf16-to-fp16=off")
    assert ran.exit == 0, ran.text
    assert "healed" not in ran.checks


def test_two_processes_on_one_exclusive_card_are_found_before_the_training(example, tmp_path):
    tts = on_cards(example, tmp_path, TITAN_ALONE)
    assert tts.go("--until", "sync").exit == 0
    fixed = tts.pipeline("fix", "--host", "local", "--config", NAME, "--only", "compute-mode")
    assert fixed.exit == 21, fixed.text
    finding = next(one for one in fixed.json["findings"] if one["check"] == "compute-mode")
    assert finding["severity"] == "error"
    assert "allows one process (Exclusive_Process); 2 would share 1 card(s)" in finding["message"]


def test_only_processes_of_an_earlier_run_on_the_card_are_ended(example, tmp_path):
    first = example(NAME)
    synced = first.go("--until", "sync")
    assert synced.exit == 0, synced.text
    project = next((first.home / "halfstep" / "projects").iterdir())
    run = project / "runs" / f"{NAME}-0badcafe"
    with sleeper(HALFSTEP_RUN_DIR=str(run)) as zombie, sleeper() as stranger:
        processes = ((zombie.pid, "python", 11200), (stranger.pid, "python", 4000))
        card = Card("NVIDIA TITAN RTX", "7.5", 24576, used=15200, processes=processes)
        write_nvidia_smi(tmp_path / "bin", [card])
        tts = Example(first.name, first.root, first.home, {"PATH": path_with(tmp_path / "bin")})
        ended = tts.pipeline("fix", "--host", "local", "--config", NAME, "--only", "stale-processes")
        assert ended.exit == 0, ended.text
        assert zombie.wait(PATIENCE_S) in (-signal.SIGTERM, -signal.SIGKILL)
        assert stranger.poll() is None
        messages = [one["message"] for one in ended.json["findings"] if one["check"] == "stale-processes"]
    assert any(f"pid {zombie.pid}" in message and run.name in message for message in messages), messages
    assert any(f"pid {stranger.pid}" in message and "not a process of halfstep" in message for message in messages), (
        messages
    )


def on_cards(example, folder: Path, *cards: Card) -> Example:
    """Return a copy of the example on a host whose nvidia-smi reports those cards."""
    write_nvidia_smi(folder / "bin", cards)
    return example(NAME, PATH=path_with(folder / "bin"))


def path_with(folder: Path) -> str:
    return os.pathsep.join((str(folder), str(Path(sys.executable).parent), os.environ["PATH"]))


@contextlib.contextmanager
def sleeper(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its own session, as a torch worker is."""
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(argv, env={**os.environ, **environment}, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
