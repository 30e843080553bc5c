"""The entry point of the installed command.

It imports halfstep's packages from its own installation folder, even if the project or PYTHONPATH contains a package of
the same name, such as `pipeline`.
"""

import importlib
import signal
import sys
from pathlib import Path

PACKAGES = ("pipeline", "fixers", "remote")


def main() -> None:
    """Run `pipeline` and exit with the verb's documented code."""
    # Ctrl-C during an import would print a traceback.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    folder = str(Path(__file__).absolute().parents[1])
    sys.path.insert(0, folder)
    try:
        for package in PACKAGES:
            importlib.import_module(package)
    finally:
        sys.path.remove(folder)
    importlib.import_module("pipeline.__main__").main()
