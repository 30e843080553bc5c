"""Import torch and the hooks once, then run every script in a fork of this process under the hooks.

The arguments are the folder of the hooks and the name of an abstract socket. "ready" is printed once it accepts
connections, each of which gets a process of its own. Requests are lines of JSON: {script, folder, environment,
seconds}. Each is answered with one line: {exit}, which is None if the script was ended. The end of stdin ends this
process.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import torch
import transformers.modeling_utils  # noqa: F401
from peft import LoraConfig  # noqa: F401

torch.set_num_threads(1)
HOOKS = sys.argv[1]
sys.path.insert(0, HOOKS)
activation = importlib.import_module("halfstep_hooks.activation")
sys.path.remove(HOOKS)
# Otherwise each collection in a fork writes to all objects of torch, and so copies their pages.
gc.collect()
gc.freeze()


def run_script(order):
    """Install the hooks, then run the script as __main__ in its folder. Called in the child."""
    os.setsid()
    os.chdir(order["folder"])
    output = os.open("output.log", os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(order["environment"])
    sys.path[:0] = [HOOKS, order.get("path", str(Path(order["script"]).parents[1]))]
    sys.argv = [order["script"], *order.get("argv", ())]
    activation.activate()
    recorder = activation.start()
    status = 0
    try:
        runpy.run_path(order["script"], run_name="__main__")
    except BaseException as error:  # noqa: BLE001 - as the interpreter itself would
        status = 1
        sys.excepthook(type(error), error, error.__traceback__)
    if order["environment"].get("HALFSTEP_PROOF"):
        recorder.write("exited")
    else:
        recorder.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def wait_for(pid, order):
    """Return the child's exit status.

    None if the child was killed because it had reported or took too long.
    """
    until = time.monotonic() + order["seconds"]
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if any('"state": "done"' in path.read_text() for path in Path(order["folder"]).glob("reports/rank-*.json")):
            break
        time.sleep(0.01)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def answer(connection):
    """Run the requests of one connection, one after another, until it is closed."""
    for line in connection:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                run_script(order)
            except BaseException:  # noqa: BLE001 - a forked child must end here
                traceback.print_exc()
                os._exit(99)
        print(json.dumps({"exit": wait_for(pid, order)}), file=connection, flush=True)


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + sys.argv[2])
    listener.listen(64)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in readable:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            answer(connection.makefile("rw"))
            os._exit(0)
        connection.close()


if __name__ == "__main__":
    main()
