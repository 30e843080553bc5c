"""Installed as `sitecustomize.py` and `usercustomize.py`: start the hooks, then run the next such module."""

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def chain(name: str) -> None:
    """Run the next module `name` on `sys.path`, if there is one, and make later imports of `name` return it."""
    own_folder = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.abspath(path or os.getcwd()) for path in sys.path]
    # Only later folders are searched, because a module in an earlier folder has already run and imported this module.
    behind = folders[folders.index(own_folder) + 1 :] if own_folder in folders else folders
    spec = importlib.machinery.PathFinder.find_spec(name, behind)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def activate() -> None:
    """Install the hooks. If that fails, print the error and continue without them."""
    try:
        importlib.import_module("halfstep_hooks.activation").activate()
    except Exception as error:  # noqa: BLE001 - a defect of the hooks must not end the user's command
        print(f"halfstep: the hooks could not be installed: {error}", file=sys.stderr)


activate()
chain(__name__)
