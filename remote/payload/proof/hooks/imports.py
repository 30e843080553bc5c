"""Callbacks after a module has been executed, whichever finder or loader the module has."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.machinery import ModuleSpec
from typing import Any, Callable, FrozenSet, Optional

_MARK = "__halfstep_watched__"

Executed = Callable[[str], None]


def watch_imports(names: FrozenSet[str], executed: Executed) -> None:
    """Call `executed(name)` after each execution of a module in `names`, including in forked children.

    The search function is wrapped instead of `sys.meta_path`, so other finders on that list make no difference. Looking
    up a spec without executing the module (`importlib.util.find_spec`) has no effect.
    """

    def wrap(original: Callable[..., Optional[ModuleSpec]]) -> Callable[..., Optional[ModuleSpec]]:
        def find(name: str, *args: Any, **kwargs: Any) -> Optional[ModuleSpec]:
            spec = original(name, *args, **kwargs)
            if name in names and spec is not None:
                _watch_loader(spec.loader, names, executed)
            return spec

        return find

    # `import` and `importlib.reload` use the function of the first module; `importlib.util.find_spec` uses the function
    # of the second module.
    for module in ("importlib._bootstrap", "importlib.util"):
        home: Any = importlib.import_module(module)
        home._find_spec = wrap(home._find_spec)


def _watch_loader(loader: Any, names: FrozenSet[str], executed: Executed) -> None:
    if isinstance(loader, importlib.util.LazyLoader):
        # The exec_module of this loader does not execute the module yet.
        loader = vars(loader)["loader"]
    if not hasattr(loader, "exec_module") or hasattr(loader, _MARK):
        return
    execute = loader.exec_module

    def execute_and_call_back(module: Any) -> None:
        execute(module)
        # Several modules may share a loader.
        if module.__name__ in names:
            executed(module.__name__)

    # The attribute is set on the instance, because the class is used for other modules too.
    setattr(loader, _MARK, True)
    loader.exec_module = execute_and_call_back
