"""The command from its first moment on: Ctrl-C waits until there is somebody who can answer it."""

import importlib
import signal


def main() -> None:
    """`pipeline`, and `python -m pipeline`; exits with the verb's published code."""
    # What follows loads for a while; where it is cut short there is a traceback and no word.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    importlib.import_module("pipeline.cli.main").main()


if __name__ == "__main__":
    main()
