"""Traits of the project's code (attention, loss scaling, copied settings), found by searching its text."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import fields, replace
from posixpath import basename, dirname
from typing import Any

from fixers.sources.attention_choice import lacks_sdpa
from fixers.sources.commands import reads_commands
from fixers.sources.file_roles import SCALES
from fixers.sources.flash_imports import lines_that_need_flash
from fixers.sources.flash_only import SPLITS_SEQUENCES, FlashOnly
from fixers.sources.flash_requirements import find_broken
from fixers.sources.function_roles import engines_in, float_casters_in, freezes, optimizes, trains_parts, unscalers_in
from fixers.sources.launched import Launched, launched_in
from fixers.sources.lines import holds, holds_any, lines_with
from fixers.sources.python import TREES
from fixers.sources.readers.reader import Float16WhenOff, Overwritten, Unscaled
from fixers.sources.sharded_gradients import options_of_gradients
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass

CHOSEN = rb"""attn_implementation["'\]]*[ ]*[=:](?![ ]*["'](?:eager|sdpa))"""
FLASH_WORDS = (b"flash_att", b"attn_implementation", b"kernels-community/")
RUNS_FLASH = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+flash_attn|flash_attention_[23]|kernels-community/|" + CHOSEN, re.MULTILINE
)
SDPA = (b"scaled_dot_product_attention", b"sdp_kernel", b"sdpa_kernel")
SWITCH = rb"(?:\w+\.)*(\w+)\.(\w*fp16\w*)"
COPIED = re.compile(rb"^[ \t]*" + SWITCH + rb"[ \t]*=[ \t]*" + SWITCH + rb"[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
CASTS_GRADIENTS = re.compile(rb"\.grad[ \t]*=[ \t]*[\w.]+\.grad\.(?:to|float)\(")
SHARDS_IN_BF16 = re.compile(rb"^(\w+)[ ]*=[ ]*(?:\w+\.)*MixedPrecision(?:Policy)?\([^()]*bfloat16", re.MULTILINE)
AUTOCAST_DTYPE = re.compile(rb"\bautocast\([^\n]*\bdtype[ ]*=[ ]*(?:\w+\.)*(\w+)[ ]*[,)]")
PURE = re.compile(rb"^[^#\n]*?(\w*)[.]?\bpure_bf16[\"']?[ \t]*[=:][ \t]*[\"']?[Tt]rue\b", re.MULTILINE)
MIXED = re.compile(
    rb"""precision["']?(?:[ \t]*[=:][ \t]*|[ \t]+)["']?(?:(?:fp|bf)?16(?!-true)|float16|bfloat16)|--(?:fp|bf)16\b""",
    re.IGNORECASE,
)
LOADS_MODEL = re.compile(
    rb"\b(?:\w*CausalLM\w*|AutoModel|(?:Qwen|Llama|Gemma|Mistral|Mixtral|Phi|DeepSeek|Glm)(?!\w*(?:Token|Config|Proc))\w*)"
    rb"\.from_pretrained\((?![^()]*(?:\([^()]*\)[^()]*)*(?:dtype|load_in_|quantization_config))"
)
CLIPS = re.compile(rb"gradient_clip_val[\"']?[ \t]*[=:](?!=|[ \t]*(?:None\b|null\b|0(?:\.0*)?(?:[\s,)]|$)))")
TRAINS = re.compile(
    rb"--(?:learning_rate|lr|bf16|fp16|num_train_epochs|per_device_train_batch_size|train_batch_size)\b"
)
DEFINITION = re.compile(rb"^(?:class|def)[ ]", re.MULTILINE)
GROUP = re.compile(rb"class[ ]+(\w+)(?:\((?:object)?\))?[ ]*:(?=.*self\.optimizers\[)", re.DOTALL)
OFF_IS_HALF = re.compile(
    rb"""["']fp16["'][ ]*:[ ]*\{[^{}]*?["']enabled["'][ ]*:[ ]*not[ ]+(?:\w+\.)*(\w{0,80}bf16\w{0,80})"""
    rb"""|\bif[ ]+(?:\w+\.)*(\w{0,80}bf16\w{0,80})[ ]*:[^\n]*\n[^\n]*bfloat16[^\n]*\n"""
    rb"""[ \t]*else[ ]*:(?:[ \t]*\r?\n)*[^\n]*(?:\.half\(\)|\bfloat16|fp16)"""
    rb"""|bfloat16[ ]+if[ ]+(?:\w+\.)*(\w{0,80}bf16\w{0,80})[ ]+else[ ]+(?:torch\.)?["']?(?:float16|half|fp16)\b"""
)
"""Matches code that selects float16 when a bfloat16 switch is off."""
READS_FP16 = re.compile(rb"\.\w*fp16\b|--\w*fp16\b|TrainingArguments")
"""Matches code with a separate fp16 switch: turning the bfloat16 switch off does not select float16 there."""
ON_BY_DEFAULT = re.compile(rb"(?:bf16|bfloat16)\w*[\"'][ ]*,(?:[ ]*True\b|[^()]{0,500}\bdefault[ ]*=[ ]*True\b)")
"""Matches a bfloat16 switch that is on by default."""
DISTRIBUTED_TYPE = re.compile(rb"^distributed_type[ ]*:[ ]*[\"']?(\w+)", re.MULTILINE)
HALF_SPEECH = (b"whisper-large-v3", b"distil-whisper", b"distil-large", b"CrisperWhisper")  # weights in float16
SCRIPT_FOLDERS = ("scripts", "script", "conf", "config", "configs", "sh", "bash", "launch")


@dataclass(frozen=True)
class Traits:
    """`flash`: the code imports or selects FlashAttention. `sdpa`: the code calls PyTorch's own attention.

    `overwritten` are the float16 switches that the code overwrites. `master_loops` are files whose training loop casts
    gradients to update float32 master weights. `scales`: the code scales a loss, or uses a library with loss scaling.
    `pure`: the names of settings objects whose `pure_bf16` is set to true by a command or config, each with the folder
    of the program that the command or config starts. `flash_only`: places that fail without FlashAttention. `mixed`:
    code, commands or configs select mixed precision. `off_is_half`: bfloat16 switches that select float16 when they are
    off, each with its line. `optimizer_containers`: classes that contain several optimizers but are no optimizer, and
    functions that return an instance of such a class. `policies`: bfloat16 policies of FSDP. `scaled_dtypes`: dtypes of
    autocast in files with a loss scaler. `gradient_dtype_options`: options that set the
    dtype in which FSDP computes gradients. `loops`: a file calls `backward()` itself. `clips`: Lightning's Trainer
    clips gradients. `frozen_loads`: places that load a language model without a dtype, in files that freeze weights.
    `launched`: the scripts that commands and documents start. `without_sdpa`: files with models that have no SDPA.
    `needs_flash`: lines that need FlashAttention at import. `float_casters`: `path:name` of functions that cast
    trainable parameters to float32. `half_speech`: a file names a speech checkpoint in half precision. `accelerate`:
    configs of Accelerate, each with its distributed type. `unscalers`: functions that unscale gradients.
    `engines`: `path:name` of functions and classes that create DeepSpeed's engine.
    `trains_parts`: the project freezes parameters or names adapters. `optimizes`: the code names optimizers or
    trainers. `settled_switches`: switches of FlashAttention that select another attention after the plan.
    `unused_defaults`: settings of FlashAttention whose default has no effect.
    """

    flash: bool = False
    sdpa: bool = False
    overwritten: tuple[Overwritten, ...] = ()
    master_loops: tuple[str, ...] = ()
    scales: bool = False
    pure: tuple[tuple[str, str], ...] = ()
    flash_only: tuple[FlashOnly, ...] = ()
    mixed: bool = False
    optimizer_containers: tuple[str, ...] = ()
    off_is_half: tuple[Float16WhenOff, ...] = ()
    policies: tuple[str, ...] = ()
    scaled_dtypes: tuple[str, ...] = ()
    gradient_dtype_options: tuple[Unscaled, ...] = ()
    loops: bool = False
    clips: bool = False
    frozen_loads: tuple[str, ...] = ()
    launched: tuple[Launched, ...] = ()
    without_sdpa: tuple[str, ...] = ()
    needs_flash: tuple[tuple[str, int], ...] = ()
    float_casters: tuple[str, ...] = ()
    half_speech: bool = False
    accelerate: tuple[tuple[str, str], ...] = ()
    unscalers: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    trains_parts: bool = False
    optimizes: bool = False
    settled_switches: tuple[str, ...] = ()
    unused_defaults: tuple[str, ...] = ()

    def broken_without_flash(self, path: str, switch: str = "") -> FlashOnly | None:
        """Return a place that fails if `switch` in the file `path` no longer selects FlashAttention, or None.

        A place with a switch fails only if this switch changes. A place without a switch fails if another
        implementation is selected: in its own file if `chosen_here`, otherwise in any file.
        """
        called = switch.lower().lstrip("+-").replace("-", "_").rpartition(".")[2]
        if "ring" in called.split("_"):
            return FlashOnly(path, 0, SPLITS_SEQUENCES, switch)
        broken = (each for each in self.flash_only if each.breaks(path, called))
        return next(broken, None)

    def is_settled(self, switch: str) -> bool:
        """Return True if, after the other planned edits, this FlashAttention switch selects another attention."""
        return switch.lower().lstrip("+-").replace("-", "_").rpartition(".")[2] in self.settled_switches

    @property
    def flash_is_sdpa(self) -> bool:
        """Whether the code's FlashAttention switch selects PyTorch's SDPA, which runs on every card."""
        return self.sdpa and not self.flash

    @property
    def other_attention(self) -> str:
        """SDPA, or eager attention if a model lacks SDPA."""
        return "eager" if self.without_sdpa else "sdpa"

    def attention_of(self, paths: Container[str]) -> Traits:
        """Return a copy in which `flash_only` and `without_sdpa` contain only places in these files."""
        flash_only = tuple(each for each in self.flash_only if each.path in paths)
        return replace(
            self, flash_only=flash_only, without_sdpa=tuple(each for each in self.without_sdpa if each in paths)
        )

    @property
    def trains_whole_models(self) -> bool:
        """Whether code of the project trains, and nothing freezes parameters."""
        return self.optimizes and not self.trains_parts

    @property
    def may_use_deepspeed(self) -> bool:
        """Whether a command or a config of Accelerate selects DeepSpeed."""
        return any(each.deepspeed for each in self.launched) or any(kind == "DEEPSPEED" for _, kind in self.accelerate)

    @property
    def unscaled_loops(self) -> tuple[str, ...]:
        """The files with float32 master weights, if the project never scales a loss."""
        return () if self.scales else self.master_loops


def unscaled_options(traits: Traits) -> tuple[Unscaled, ...]:
    """Return the options that set the dtype of gradients, if the project has a training loop without loss scaling."""
    return traits.gradient_dtype_options if traits.loops and not traits.scales else ()


def traits_of(path: str, source: bytes) -> Traits:
    """Return the traits of one Python file."""
    flash = RUNS_FLASH.search(lines_with(source, FLASH_WORDS)) is not None
    sdpa = holds_any(source, SDPA)
    copied = COPIED.finditer(source) if COPIED.search(lines_with(source, (b"fp16",))) else ()
    overwritten = tuple(
        Overwritten(each[1].decode(), each[2].decode(), f"{path}:{line_of(source, each.start(1))}") for each in copied
    )
    master = (path,) if holds(source, b".grad") and CASTS_GRADIENTS.search(source) else ()
    scales = SCALES.is_in(source)
    return Traits(
        flash,
        sdpa,
        overwritten,
        master,
        scales,
        flash_only=find_broken(path, source),
        mixed=_is_mixed(source),
        optimizer_containers=tuple(_optimizer_containers(source)),
        off_is_half=tuple(_off_is_half(path, source)),
        policies=tuple(_texts(SHARDS_IN_BF16.findall(source) if holds(source, b"MixedPrecision") else ())),
        scaled_dtypes=tuple(_texts(AUTOCAST_DTYPE.findall(source) if holds(source, b"GradScaler(") else ())),
        gradient_dtype_options=_gradient_options(path, source),
        loops=holds(source, b".backward()"),
        clips=_clips(source),
        frozen_loads=tuple(_frozen_loads(path, source)),
        without_sdpa=(path,) if lacks_sdpa(source) else (),
        needs_flash=lines_that_need_flash(path, source)[:1],
        float_casters=tuple(f"{path}:{each}" for each in float_casters_in(source)),
        half_speech=holds_any(source, HALF_SPEECH),
        unscalers=tuple(unscalers_in(source)),
        engines=tuple(f"{path}:{each}" for each in engines_in(source)),
        trains_parts=trains_parts(source),
        optimizes=optimizes(source),
    )


def _gradient_options(path: str, source: bytes) -> tuple[Unscaled, ...]:
    if not holds(source, b"MixedPrecision"):
        return ()
    try:
        return options_of_gradients(TREES.read(path, source))
    except (Unparsable, RecursionError):
        return ()


def _off_is_half(path: str, source: bytes) -> Iterator[Float16WhenOff]:
    if not holds(source, b"bf16") or READS_FP16.search(source) or ON_BY_DEFAULT.search(source):
        return
    for found in OFF_IS_HALF.finditer(source):
        name = next(filter(None, found.groups())).decode()
        yield Float16WhenOff(name, f"{path}:{line_of(source, found.start())}")


def _is_mixed(source: bytes) -> bool:
    return MIXED.search(lines_with(source, (b"precision", b"--fp16", b"--bf16"))) is not None


def _optimizer_containers(source: bytes) -> Iterator[str]:
    """Yield the classes that contain several optimizers, and the functions that create such a class or a `Munch` dict.

    Classes with a base class are excluded: they may be optimizers.
    """
    if not holds_any(source, (b"self.optimizers", b"Munch(")):
        return
    starts = [each.start() for each in DEFINITION.finditer(source)]
    ends = [*starts[1:], len(source)][: len(starts)]
    parts = [source[start:end] for start, end in zip(starts, ends, strict=True)]
    groups = [found[1] for part in parts if (found := GROUP.match(part)) and b"def step(" in part]
    made = re.compile(rb"\b(?:" + b"|".join((*groups, b"Munch")) + rb")\(")
    functions = [part.split(b"(")[0].split()[-1] for part in parts if part.startswith(b"def") and made.search(part)]
    yield from (name.decode("ascii", "ignore") for name in (*groups, *functions))


def traits_of_text(path: str, data: bytes) -> Traits:
    """Return the traits of a settings or command file."""
    owners = {each[1].decode() for each in PURE.finditer(data)} if b"pure_bf16" in data else set()
    return Traits(
        pure=tuple((owner, _program_folder(path)) for owner in sorted(owners)),
        mixed=_is_mixed(data),
        clips=_clips(data),
        launched=launched_in(path, data) if reads_commands(path) else (),
        half_speech=holds_any(data, HALF_SPEECH),
        trains_parts=trains_parts(data),
        accelerate=tuple((path, each.decode()) for each in DISTRIBUTED_TYPE.findall(data)[:1]),
    )


def _frozen_loads(path: str, source: bytes) -> Iterator[str]:
    if holds(source, b".from_pretrained(") and freezes(source):
        yield from (f"{path}:{line_of(source, each.start())}" for each in LOADS_MODEL.finditer(source))


def _clips(data: bytes) -> bool:
    return CLIPS.search(lines_with(data, (b"gradient_clip_val",))) is not None


def _texts(names: Iterable[bytes]) -> list[str]:
    return sorted({name.decode("ascii", "ignore") for name in names})


def _program_folder(path: str) -> str:
    """Return the folder of the program that a script or config starts: the parent of folders such as `scripts/`."""
    folder = dirname(path)
    while basename(folder) in SCRIPT_FOLDERS:
        folder = dirname(folder)
    return folder


def merge_traits(parts: Iterable[Traits]) -> Traits:
    """Return the union of the traits of several files."""
    parts_list = list(parts) or [Traits()]
    return Traits(**{each.name: _merged([getattr(part, each.name) for part in parts_list]) for each in fields(Traits)})


def _merged(values: list[Any]) -> Any:
    """Merge booleans with `or`, and tuples into one tuple without duplicates."""
    if isinstance(values[0], tuple):
        return tuple(dict.fromkeys(one for each in values for one in each))
    return any(values)
