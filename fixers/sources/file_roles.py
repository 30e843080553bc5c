"""Find the role of a Python file from its text: code for another framework, or a script that never trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename, splitext

from fixers.sources.lines import LinePattern, holds_any, lines_with, may_name

HEAD_BYTES = 8192
TAIL_BYTES = 4096
"""Only the start of a file is searched for imports, and only its end for `if __name__ == "__main__"`."""

FRAMEWORK_IMPORT = re.compile(
    rb"^(?:import|from)[ \t]+(?:jax|flax|optax|tensorflow|keras|paddle|mlx|mindspore)\b", re.MULTILINE
)
JAX_IMPORT = re.compile(rb"^(?:import|from)[ \t]+(?:jax|flax|optax|mlx)\b", re.MULTILINE)
TORCH_IMPORT = re.compile(rb"^(?:import|from)[ \t]+torch\b", re.MULTILINE)
FRAMEWORKS = frozenset({b"jax", b"flax", b"optax", b"tensorflow", b"keras", b"paddle", b"mlx", b"mindspore"})
ACCELERATOR_IMPORT = re.compile(
    rb"^(?:import|from)[ \t]+(?:torch_xla|torch_npu|torch_neuronx|habana_frameworks|optimum\.habana"
    rb"|intel_extension_for_pytorch)\b",
    re.MULTILINE,
)
ACCELERATORS = frozenset(
    {b"torch_xla", b"torch_npu", b"torch_neuronx", b"habana_frameworks", b"habana", b"intel_extension_for_pytorch"}
)
OTHER_DEVICE = re.compile(
    rb"""^(?![ \t]*#)[^\n]*(?:--device(?:[_-]type)?[ =]["']?(?:npu|tpu|xla|hpu|mlu)\b|\bASCEND_\w*VISIBLE_DEVICES\b"""
    rb"""|\b(?:HABANA|MLU)_VISIBLE_\w+|\bPJRT_DEVICE=["']?TPU|\b(?:hccl|torch_npu|torch_xla)\b)""",
    re.MULTILINE,
)
OF_DEVICES = (b"npu", b"tpu", b"TPU", b"xla", b"hpu", b"HABANA", b"mlu", b"MLU", b"ASCEND", b"hccl")
"""Each match of OTHER_DEVICE contains one of these words."""
NVIDIA = re.compile(rb"^(?![ \t]*#)[^\n]*(?:cuda|nvidia|nccl|gpu)", re.MULTILINE | re.IGNORECASE)
DEFINITION = re.compile(rb"^(?:class|def)[ ]+", re.MULTILINE)
CASTS = re.compile(rb"\.half\(\)|\.to\([^)\n]*float16")
AUTOCASTS = re.compile(rb"\bautocast\(")
CHOICE = re.compile(
    rb"\w+[ ]*=[ ]*(?:True|torch\.b?float16|torch\.half)[ ]+if[ ]+([\w.]+)[ ]+else[ ]+(?:False|None|torch\.float32)\b"
)
PREPARES = re.compile(
    rb"^([ \t]+)if[ ]+(?P<condition>[\w.]+)[ ]*:[^\n]*\n(?:\1[ \t]+[^\s][^\n]*\n|[ \t]*\n)*?"
    rb"\1[ \t]+[^#\s][^#\n]*\bprepare_model_for_\w+_training\(",
    re.MULTILINE,
)
"""Matches a function of PEFT that casts the weights to float32, in a branch."""
CHOOSES_DTYPE = (b"torch_dtype", b".half()", b"float16", b"load_in_")
NOT_SELECTED = re.compile(rb"#.*|^[ \t]*\"\"\".*|\bload_in_[48]bit=False")
GUARD = re.compile(rb"^if[ \t]+__name__[ \t]*==", re.MULTILINE)
DEFINES = re.compile(rb"^(?:async[ \t]+)?(?:def|class)[ \t]", re.MULTILINE)
DEFINES_MODULE = re.compile(rb"^class[ \t]+\w+\([^()]*(?:Module|Dataset|Trainer|Model)\b", re.MULTILINE)
INFERS = re.compile(
    r"(?:^|[-_])(?:convert\w*|export\w*|merge\w*|infer\w*|demo\w*|generate\w*|sample\w*|serve\w*|server\w*|app|\w*gradio"
    r"|\w*webui|bench\w*|quantize\w*|eval\w*|predict\w*|synthesi[sz]e\w*|transcribe\w*|extract\w*|chat\w*"
    r"|decode\w*)"
    r"(?=$|[-_])|[a-z]2(?:hf|dcp|pt)"
)
"""Matches names of scripts that use a trained model."""
OF_EVALUATION = re.compile(r"(?:^|/)(?:eval|evaluation|evaluate|inference|benchmarks?|demos?)/")
"""Matches paths in a folder of such scripts."""
TRAINS = LinePattern(
    re.compile(
        rb"\.backward\(|\.step\(|\b\w*[Oo]ptim(?:izer)?s?\b\w*[ ]*[.(=]|\w*Trainer\b|TrainingArguments|\.fit\("
        rb"|\bGradScaler|\bAccelerator\(|\b(?:\w+\.)*(?:train|finetune|fine_tune)\w*\("
        rb"|\bsubprocess\b|(?<!== )[\"'](?:fp16|bf16|mixed_precision)[\"'][ ]*:(?![ ]*torch\.)"
        rb"|requires_grad[ ]*=[ ]*True|requires_grad_\((?!False)",
    ),
    (
        *(b"ptim", b"Trainer", b"GradScaler", b"Accelerator(", b"train", b"finetune", b"fine_tune", b"subprocess"),
        *(b"fp16", b"bf16", b"mixed_precision", b"requires_grad"),
    ),
)
TRAINS_SURELY = (b".backward(", b".step(", b"TrainingArguments", b".fit(")
SCALES = LinePattern(
    re.compile(
        rb"GradScaler|\bAccelerator\(|Trainer\(|TrainingArguments|deepspeed|\bFabric\(|lightning|loss_scale|scale_loss"
    ),
    (
        *(b"GradScaler", b"Accelerator(", b"Trainer(", b"TrainingArguments", b"deepspeed", b"Fabric(", b"lightning"),
        *(b"loss_scale", b"scale_loss"),
    ),
)
"""Matches code that scales a loss, or that uses a library with loss scaling."""

IMPORTS_TRAINING = re.compile(rb"^[ \t]*(?:from|import)[ \t][^\n]*\btrain(?!ed)", re.MULTILINE)
DECODES = re.compile(r"(?:decode|infer(?:ence)?|transcribe)(?:[-_]\w+)?")
"""Matches names of inference scripts, which often import the model and its options from the training script."""


def is_foreign(source: bytes) -> bool:
    """Return True for code that uses JAX, TensorFlow or another framework instead of torch."""
    head = source[:HEAD_BYTES]
    if not may_name(source, FRAMEWORKS) or not FRAMEWORK_IMPORT.search(head):
        return False
    return JAX_IMPORT.search(head) is not None or not TORCH_IMPORT.search(head)


def is_jax(source: bytes) -> bool:
    """Return True for code that imports JAX at module level."""
    head = source[:HEAD_BYTES]
    return b"jax" in head and JAX_IMPORT.search(head) is not None


def is_for_accelerator(source: bytes) -> bool:
    """Return True for code that imports the torch extension of a TPU, NPU, HPU or Intel device at module level."""
    return may_name(source, ACCELERATORS) and ACCELERATOR_IMPORT.search(source[:HEAD_BYTES]) is not None


def uses_other_device(commands: bytes) -> bool:
    """Return True for commands that select an NPU, TPU, HPU or MLU and name no GPU."""
    selecting = OTHER_DEVICE.search(lines_with(commands, OF_DEVICES))
    return selecting is not None and NVIDIA.search(commands) is None


def names_training(source: bytes) -> bool:
    """Return True if the text calls, or imports, something that may train."""
    if IMPORTS_TRAINING.search(lines_with(source, (b"train",))):
        return True
    return _trains(source if b"train" in source else source.replace(b"subprocess", b""))


def never_trains(path: str, source: bytes) -> bool:
    """Return True for a script that converts, evaluates or serves a model and contains no training code."""
    stem = splitext(basename(path))[0].lower()
    named = INFERS.search(stem) is not None
    guarded = b"__name__" in (source if named else source[-TAIL_BYTES:])
    if not (named or guarded) or "train" in stem or "tune" in stem:
        return False
    if _trains(source) or (not DECODES.fullmatch(stem) and IMPORTS_TRAINING.search(lines_with(source, (b"train",)))):
        return False
    if not DEFINES.search(source):
        return named
    builds = DEFINES_MODULE.search(source) is not None and not stem.startswith(("quantize", "quantise"))
    return guarded and GUARD.search(source) is not None and not builds


def _trains(source: bytes) -> bool:
    return holds_any(source, TRAINS_SURELY) or TRAINS.is_in(source)


def half_models_in(source: bytes) -> Iterator[str]:
    """Yield the classes and functions whose text loads or casts a model in a dtype other than float32.

    A cast in a branch is ignored, because an option selects that branch. A load in half precision under a condition is
    ignored if the function prepares the model for adapters under this condition, because this preparation casts
    the weights to float32.
    """
    if not holds_any(source, CHOOSES_DTYPE) or not holds_any(source, (b"nn.Module", b"from_pretrained(", b".half()")):
        return
    for body in DEFINITION.split(source)[1:]:
        if any(word in body for word in CHOOSES_DTYPE) and any(_selects(*each, body) for each in _lines_of_words(body)):
            yield re.match(rb"\w*", body)[0].decode("ascii", "ignore")  # type: ignore[index]


def _lines_of_words(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield each line that selects a dtype, and the header line of the block around it."""
    lines = body.split(b"\n")
    for at, line in enumerate(lines):
        if any(word in NOT_SELECTED.sub(b"", line) for word in CHOOSES_DTYPE):
            indent = len(line) - len(line.lstrip())
            above = (each for each in reversed(lines[:at]) if each.strip() and len(each) - len(each.lstrip()) < indent)
            yield line, next(above, b"").strip()


def _selects(line: bytes, above: bytes, body: bytes) -> bool:
    """Return False for autocast and for a cast in a branch, such as `if fp16: model.to(torch.float16)`.

    Autocast does not change the dtype of the weights. `above`: the header line of the block around the line.
    """
    if AUTOCASTS.search(line):
        return False
    if b"prepare_model_for_" in body:
        prepared = {each["condition"] for each in PREPARES.finditer(body)}
        line = CHOICE.sub(lambda found: b"" if found[1] in prepared else found[0], line)
        if not any(word in line for word in CHOOSES_DTYPE):
            return False
    return not (above.startswith((b"if ", b"elif ")) and CASTS.search(line))


def imported_names(source: bytes) -> Iterator[bytes]:
    """Yield every word on lines that contain an import."""
    at = source.find(b"import ")
    while at != -1:
        start, end = source.rfind(b"\n", 0, at) + 1, source.find(b"\n", at)
        end = len(source) if end == -1 else end
        yield from re.findall(rb"\w+", source[start:end])
        at = source.find(b"import ", end)
