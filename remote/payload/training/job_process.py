"""The process of a built-in job: its log output, its spec, and its exit code after a failure or a stop."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from typing import Callable, Type, TypeVar

import transformers

from remote.payload.training.failure import Preempted, TrainingFailed
from remote.payload.training.stop_request import StopRequest
from remote.protocol.exits import ExitCode
from remote.protocol.values import decode

T = TypeVar("T")
log = logging.getLogger("halfstep")


def run_job(work: Callable[[StopRequest], None], stopped: str) -> int:
    """Run `work` and return the exit code. A failure is one line with its name on stderr.

    `stopped` is logged if a SIGTERM ended the work.
    """
    first = os.environ.get("RANK", "0") == "0"
    logging.basicConfig(level=logging.INFO if first else logging.ERROR, stream=sys.stdout, format="%(message)s")
    # Names that transformers 5.23 deprecates work in every 5.x version. Warnings about them would hide warnings about
    # the user's code.
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    transformers.utils.logging.disable_progress_bar()
    stop = StopRequest()
    stop.listen()
    try:
        work(stop)
    except Preempted:
        log.info("%s", stopped)
        return ExitCode.PREEMPTED
    except TrainingFailed as failed:
        hint = f" (try: {failed.hint})" if failed.hint else ""
        print(f"halfstep stopped this training: {failed.name}: {failed.message}{hint}", file=sys.stderr, flush=True)
        return failed.exit_code
    return ExitCode.OK


def read_spec(kind: Type[T], argument: str) -> T:
    """Read a spec from the file `argument`, or from `argument` itself if it is JSON.

    Raises TrainingFailed if it is not valid.
    """
    text = argument
    try:
        if not argument.startswith("{"):
            with open(argument, encoding="utf-8") as file:
                text = file.read()
        return decode(kind, json.loads(text))
    except (OSError, ValueError) as error:
        raise TrainingFailed("spec-unreadable", f"{argument[:200]}: {error}", exit_code=ExitCode.BUG) from error
