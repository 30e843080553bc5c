"""Record where half precision entered the process (autocast, parameters, libraries), and the opened settings files."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

from .foreign import named_parameters, parameters_in
from .patching import replace
from .places import Place, Project
from .quiet import Ledger, quiet
from .report import HalfEntry, Provenance
from .runtime import CHANGES
from .tensors import dtype_name, parameters_of

HALF = ("float16", "bfloat16")
SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".conf", ".env")
MOST_FILES = 200
MOST_ENTRIES = 40
LIBRARIES = frozenset({"accelerate.state", "transformers.training_args"})
"""The patched modules outside of torch."""
PACKAGES = ("accelerate", "transformers")
ACCELERATE = "ACCELERATE_MIXED_PRECISION"
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


class OpenedSettings:
    """The settings files that this process opened, in order, without duplicates."""

    def __init__(self) -> None:
        self.paths: Dict[str, None] = {}
        self._active = False

    def watch(self) -> None:
        """Start recording. The recording cannot be stopped, because Python has no way to remove an audit hook."""
        if not self._active:
            self._active = True
            sys.addaudithook(self._audit)

    def _audit(self, event: str, args: Tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(args[0], (str, bytes)) or len(self.paths) >= MOST_FILES:
            return
        path = os.fsdecode(args[0])
        if path.endswith(SETTINGS) or os.path.basename(path).startswith(".env"):
            self.paths[os.path.abspath(path)] = None


OPENED = OpenedSettings()


class Origins:
    """Keeps the source lines at which half precision entered: the first of each kind, and the line of each cast."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._project = Project()
        self._entries: Dict[Tuple[str, str, Place], HalfEntry] = {}
        self._parameters: Dict[int, Tuple[Any, str, Place]] = {}
        self._built: List[Tuple[Any, Place]] = []

    @quiet
    def enter(self, kind: str, dtype: str, source: str = "") -> None:
        """Record that the project chose `dtype` at the current line.

        `source` is the environment variable that sets the dtype, if any.
        """
        if dtype in HALF and len(self._entries) < MOST_ENTRIES:
            place = self._project.place(PACKAGES if kind in ("accelerator", "trainer") else ())
            self._entries.setdefault((kind, dtype, place), _entry(kind, dtype, place, source=source))

    def current_line(self) -> str:
        """Return the project's line that made the current call, or the installed code if no such line is known."""
        return str(self._project.place())

    @quiet
    def cast(self, parameters: List[Any]) -> None:
        """Record that the current call cast these parameters to half precision."""
        place = self._project.place()
        for parameter in parameters:
            self._parameters[id(parameter)] = (weakref.ref(parameter), dtype_name(parameter.dtype), place)

    @quiet
    def built(self, optimizer: Any) -> None:
        """Record where an optimizer was created, for parameters whose own origin is unknown."""
        self._built.append((weakref.ref(optimizer), self._project.place()))

    def summary(self, roots: List[Any], optimizers: List[Any]) -> Provenance:
        """Return all entries, including those of the half-precision parameters of these models and optimizers."""
        opened = (self._project.relative(path) for path in OPENED.paths)
        settings = tuple(path for path in opened if path is not None)
        entries = self._all_entries(roots, optimizers)
        return Provenance(entries, settings, tuple(sys.argv), tuple(CHANGES.lines))

    def _all_entries(self, roots: List[Any], optimizers: List[Any]) -> Tuple[HalfEntry, ...]:
        rows: Dict[Tuple[str, str, Place], HalfEntry] = dict(self._entries)
        seen = set()
        held = [("", p, place) for one, place in self._living(optimizers) for p in parameters_of(one)]
        named = [(name, p, None) for root in roots for name, p in named_parameters(root)]
        for name, parameter, built in [*named, *held]:
            dtype = dtype_name(parameter.dtype)
            if id(parameter) in seen or dtype not in HALF:
                continue
            seen.add(id(parameter))
            place = self._origin(parameter, dtype) or built
            if place is not None:
                key = ("trained" if parameter.requires_grad else "frozen", dtype, place)
                known = rows.get(key) or _entry(*key, example=name)
                rows[key] = _entry(*key, example=known.example, tensors=known.tensors + 1)
        return tuple(rows.values())

    def _living(self, optimizers: List[Any]) -> List[Tuple[Any, Place]]:
        built = [(one(), place) for one, place in self._built]
        return [(one, place) for one, place in built if any(one is known for known in optimizers)]

    def _origin(self, parameter: Any, dtype: str) -> Optional[Place]:
        known, became, place = self._parameters.get(id(parameter), (lambda: None, "", None))
        return place if known() is parameter and became == dtype else None


def _entry(kind: str, dtype: str, place: Place, **more: Any) -> HalfEntry:
    return HalfEntry(kind, dtype, place.file, place.line, place.installed, **more)


def patch_parameters(torch: Any, origins: Origins) -> None:
    """Record where modules get half-precision parameters: by a cast, or by registration in that dtype."""
    depth = [0]

    def apply(original: Any) -> Any:
        def applying(self: Any, *args: Any, **kwargs: Any) -> Any:
            if depth[0]:
                return original(self, *args, **kwargs)
            before = {id(p): p.dtype for p in parameters_in(self)}
            depth[0] += 1
            try:
                result = original(self, *args, **kwargs)
            finally:
                depth[0] -= 1
            origins.cast([p for p in parameters_in(self) if _is_half(p) and before.get(id(p)) != p.dtype])
            return result

        return applying

    def register(original: Any) -> Any:
        def registering(self: Any, name: str, param: Any) -> None:
            original(self, name, param)
            if param is not None and _is_half(param) and not depth[0]:
                origins.cast([param])

        return registering

    replace(torch.nn.Module, "_apply", apply)
    replace(torch.nn.Module, "register_parameter", register)


def _is_half(parameter: Any) -> bool:
    return dtype_name(parameter.dtype) in HALF


def patch_libraries(origins: Origins) -> None:
    """Record the mixed precision of Accelerate and of Trainer if they are imported."""
    state = getattr(sys.modules.get("accelerate.state"), "AcceleratorState", None)
    arguments = getattr(sys.modules.get("transformers.training_args"), "TrainingArguments", None)

    def init(original: Any) -> Any:
        def build(self: Any, mixed_precision: Any = None, *args: Any, **kwargs: Any) -> None:
            first = not getattr(type(self), "_shared_state", {})
            original(self, mixed_precision, *args, **kwargs)
            chosen = _DTYPES.get(str(getattr(self, "_mixed_precision", "")), "")
            if first:
                origins.enter("accelerator", chosen, ACCELERATE if mixed_precision is None else "")

        return build

    def post_init(original: Any) -> Any:
        def prepare(self: Any) -> None:
            original(self)
            for word, dtype in _DTYPES.items():
                if getattr(self, word, False):
                    origins.enter("trainer", dtype)

        return prepare

    if state is not None:
        replace(state, "__init__", init)
    if arguments is not None:
        replace(arguments, "__post_init__", post_init)
