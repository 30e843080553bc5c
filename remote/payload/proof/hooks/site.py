"""Copied as `sitecustomize.py`: arms the hooks, then hands over to the sitecustomize that would have run without us."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def chain() -> None:
    """The host's own sitecustomize ran, where it has one, and `import sitecustomize` finds that one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or os.getcwd()) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def arm() -> None:
    """Our hooks wait for torch; a fault in them is told and costs the command nothing."""
    try:
        importlib.import_module("halfstep_hooks.arm").arm()
    except Exception as error:  # noqa: BLE001 - the user's command must run whatever is wrong with us
        print(f"halfstep: the hooks could not be armed: {error}", file=sys.stderr)


arm()
chain()
