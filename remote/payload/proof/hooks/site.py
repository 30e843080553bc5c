"""Copied as `sitecustomize.py` and `usercustomize.py`: arms the hooks, then runs the module of that name they hide."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def chain(name: str) -> None:
    """The module of that name behind this folder on `sys.path` has run, if any, and `import` finds that one."""
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.abspath(path or os.getcwd()) for path in sys.path]
    # One in front of this folder brought us here and has run: only those behind are still to come.
    behind = folders[folders.index(here) + 1 :] if here in folders else folders
    spec = importlib.machinery.PathFinder.find_spec(name, behind)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def arm() -> None:
    """The hooks wait for torch; an error in them is printed and leaves the command as it is."""
    try:
        importlib.import_module("halfstep_hooks.arm").arm()
    except Exception as error:  # noqa: BLE001 - the user's command must run whatever is wrong with us
        print(f"halfstep: the hooks could not be armed: {error}", file=sys.stderr)


arm()
chain(__name__)
