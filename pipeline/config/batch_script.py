"""Read the `#SBATCH` lines of a batch script as keys of `slurm:`. Pure."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator

from pydantic import ValidationError

from pipeline.config.host_model import SLURM_OPTIONS, SlurmConfig
from remote.protocol.text import whole_number

PREFIX = b"#SBATCH"
LONGEST_LINE = 400
SHORT_OPTIONS = {
    "-p": "--partition",
    "-A": "--account",
    "-G": "--gpus",
    "-c": "--cpus-per-task",
    "-t": "--time",
    "-C": "--constraint",
    "-q": "--qos",
}


def slurm_keys(script: bytes) -> dict[str, str | int]:
    """Return the keys of `slurm:` for a batch script, such as {"partition": "gpu", "time": "1-00:00:00"}.

    Options for which `slurm:` has no key are left out. As sbatch does, stop at the first line that is no comment.
    """
    keys = {option: key for key, option in SLURM_OPTIONS.items()}
    found: dict[str, str | int] = {}
    for option, text in _options(script):
        if option not in keys:
            continue
        number = whole_number(text)
        for value in (text,) if number is None else (number, text):
            with contextlib.suppress(ValidationError):
                SlurmConfig.model_validate({keys[option]: value})
                found[keys[option]] = value
                break
    return found


def _options(script: bytes) -> Iterator[tuple[str, str]]:
    """Yield each option with its long name, and its value."""
    for line in script.splitlines():
        if line.strip() and not line.startswith(b"#"):
            return
        if not line.startswith(PREFIX) or len(line) > LONGEST_LINE:
            continue
        try:
            words = shlex.split(line[len(PREFIX) :].decode("utf-8", "replace"), comments=True)
        except ValueError:
            continue
        for index, word in enumerate(words):
            name, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
            following = words[index + 1] if index + 1 < len(words) else ""
            yield SHORT_OPTIONS.get(name, name), value or following
