"""A trainer in plain Python: counts steps, saves checkpoints in Hugging Face's layout, fails on request."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile

RUN = os.environ["HALFSTEP_RUN_DIR"]
LIFE = "import signal, sys, time\n{}\nprint('up', flush=True)\nwhile True: time.sleep(0.05)\n"


def say(event: str, **more: object) -> None:
    line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
    with open(f"{RUN}/trainer.jsonl", "a") as file:
        file.write(line)


def write_progress(step: int, steps: int) -> None:
    part = f"{RUN}/progress.json.part-{os.getpid()}"
    with open(part, "w") as file:
        json.dump({"step": step, "steps": steps, "loss": 2.0 / (step + 1), "at_unix": time.time()}, file)
    os.replace(part, f"{RUN}/progress.json")


def write_zip(path: str, value: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", value)


def write_tensors(path: str, data: bytes) -> None:
    header = json.dumps({"lora_A": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)


def save(folder: str, step: int, *, scaler: bool = True, stuck: bool = False) -> None:
    """Save in the Trainer's own order: weights, optimizer, scheduler, scaler, random state, trainer state.

    A `stuck` save never ends.
    """
    target = f"{folder}/checkpoint-{step}"
    os.makedirs(target, exist_ok=True)
    write_tensors(f"{target}/adapter_model.safetensors", bytes(range(256)) * 4)
    with open(f"{target}/adapter_config.json", "w") as file:
        json.dump({"r": 4, "peft_type": "LORA"}, file)
    while stuck:
        signal.pause()
    write_zip(f"{target}/optimizer.pt", b"optimizer %d" % step)
    write_zip(f"{target}/scheduler.pt", b"scheduler %d" % step)
    if scaler:
        write_zip(f"{target}/scaler.pt", b"scaler %d" % step)
    write_zip(f"{target}/rng_state.pth", b"rng %d" % step)
    with open(f"{target}/trainer_state.json", "w") as file:
        json.dump({"global_step": step, "log_history": []}, file)
    say("saved", step=step)


def rotate(folder: str, keep: int) -> None:
    """Delete all but the `keep` youngest checkpoints by mtime, as transformers' rotate_checkpoints does."""
    paths = [f"{folder}/{name}" for name in os.listdir(folder) if name.startswith("checkpoint-")]
    for path in sorted(paths, key=os.path.getmtime)[:-keep]:
        shutil.rmtree(path)
        say("rotated", name=os.path.basename(path))


def start_workers(count: int, stubborn: bool) -> None:
    """Start workers as torchrun does: in their own sessions, each with a child that may ignore SIGTERM."""
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if stubborn else ""
    for _ in range(count):
        worker = subprocess.Popen(
            [sys.executable, "-c", LIFE.format(ignore)],
            start_new_session=True,
            stdout=subprocess.PIPE,
        )
        worker.stdout.readline()
        say("worker", worker=worker.pid)


def resumed_step() -> int:
    """Return the last step of the checkpoint to resume from, which must be complete."""
    folder = os.environ.get("HALFSTEP_RESUME_FROM", "")
    if not os.path.isdir(folder):
        return 0
    with open(f"{folder}/trainer_state.json") as file:
        step = json.load(file)["global_step"]
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        with zipfile.ZipFile(f"{folder}/{name}") as archive:
            if archive.read("archive/data.pkl").split()[-1] != b"%d" % step:
                raise ValueError(f"{name} is not of step {step}")
    return int(step)


SERVICE = """
import signal, sys, time
sys.path.insert(0, {folder!r})
import fake_trainer
def told(number, frame):
    fake_trainer.say("service-told")
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
fake_trainer.say("service")
while True:
    time.sleep(0.02)
"""


def fork_worker() -> int:
    """Fork a worker as a data loader does, and return its pid. The worker ends at SIGTERM, and when its parent ends."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        while os.getppid() == parent:
            time.sleep(0.02)
        os._exit(0)
    return pid


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--until", default="", help="after the steps, wait for this file")
    parser.add_argument("--step-s", type=float, default=0.01)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--keep", type=int, default=0, help="the number of checkpoints to keep")
    parser.add_argument("--break-saves", action="store_true")
    parser.add_argument("--stuck-save", type=int, default=-1, help="the step whose checkpoint is never completed")
    parser.add_argument("--output", default=os.environ["HALFSTEP_OUTPUT_DIR"])
    parser.add_argument("--no-scaler", action="store_true")
    parser.add_argument(
        "--on-term", choices=("die", "ignore", "save", "save-11", "save-zero", "save-42"), default="die"
    )
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--leave-workers", action="store_true")
    parser.add_argument("--fork-worker", action="store_true")
    parser.add_argument("--service", action="store_true", help="a logger beside the trainer")
    parser.add_argument("--eat", type=int, default=0, help="MiB of memory to take")
    parser.add_argument("--shout", type=int, default=0, help="MiB of output")
    parser.add_argument("--only-rank", default="", help="only this rank saves")
    parser.add_argument("--print", default="")
    parser.add_argument("--exit", type=int, default=0)
    options = parser.parse_args()
    state = {"told": 0, "step": 0}

    def on_term(number: int, frame: object) -> None:
        state["told"] += 1
        say("term", count=state["told"])

    if options.on_term != "die":
        signal.signal(signal.SIGTERM, on_term)
    say("begin", job=os.environ["HALFSTEP_JOB"], cwd=os.getcwd(), resume=os.environ.get("HALFSTEP_RESUME_FROM", ""))
    if options.print:
        print(os.path.expandvars(options.print), flush=True)
    if options.workers:
        start_workers(options.workers, options.stubborn)
    if options.service:
        code = SERVICE.format(folder=os.path.dirname(os.path.abspath(__file__)))
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    helper = fork_worker() if options.fork_worker else 0
    line = ("x" * 1023 + "\n") * 1024
    for _ in range(options.shout):
        sys.stdout.write(line)
    sys.stdout.flush()
    eaten = [bytearray(b"x" * 2**20) for _ in range(options.eat)]
    step = resumed_step()
    while step < options.steps or (options.until and not os.path.exists(options.until)):
        if step < options.steps:
            step += 1
            write_progress(step, options.steps)
            if options.save_every and step % options.save_every == 0:
                save(options.output, step, scaler=not options.no_scaler, stuck=step == options.stuck_save)
                if options.break_saves:
                    os.truncate(f"{options.output}/checkpoint-{step}/optimizer.pt", 10)
                if options.keep:
                    rotate(options.output, options.keep)
                say("stepped", step=step)
        time.sleep(options.step_s)
        if state["told"] and options.on_term.startswith("save"):
            time.sleep(0.2)
            if os.environ.get("RANK", "") == options.only_rank:
                last = 11 if options.on_term == "save-11" else step
                save(options.output, last, stuck=last == options.stuck_save)
            say("leaving", helper_lives=bool(helper) and os.waitpid(helper, os.WNOHANG) == (0, 0))
            return {"save": 143, "save-11": 143, "save-zero": 0, "save-42": 42}[options.on_term]
    if options.leave_workers or not options.workers:
        say("end", eaten=len(eaten))
    return options.exit


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
