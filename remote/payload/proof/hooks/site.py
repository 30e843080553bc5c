"""Copied as `sitecustomize.py` and `usercustomize.py`: arms the hooks, then runs the module of that name behind it."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def chain(name: str) -> None:
    """Run the next module of that name on `sys.path`, if any, and make `import` find that one."""
    own_folder = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.abspath(path or os.getcwd()) for path in sys.path]
    # One in front of this folder imported this one and has run: only those behind are left.
    behind = folders[folders.index(own_folder) + 1 :] if own_folder in folders else folders
    spec = importlib.machinery.PathFinder.find_spec(name, behind)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def arm() -> None:
    """Arm the hooks; print an error in them and leave the command as it is."""
    try:
        importlib.import_module("halfstep_hooks.arm").arm()
    except Exception as error:  # noqa: BLE001 - a defect of the hooks must not end the user's command
        print(f"halfstep: the hooks could not be armed: {error}", file=sys.stderr)


arm()
chain(__name__)
