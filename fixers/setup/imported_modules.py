"""The installed packages that a training script imports whenever it starts."""

from __future__ import annotations

import ast
import posixpath
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

from fixers.frame.findings import error, warning
from fixers.frame.site import Tree
from fixers.setup.project_packages import REQUIREMENTS
from fixers.setup.started_files import python_files_of, scripts_of_shell
from fixers.setup.started_module import start_of
from fixers.sources.module_files import ModuleIndex, files_of, imported_names
from fixers.sources.syntax import LARGEST_BYTES, parse_python
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding

WITH_TORCH = frozenset(
    {"torch", "filelock", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec"}
    | {"pip", "setuptools", "pkg_resources", "distutils", "triton", "functorch", "torchgen"}
)
"""The modules that an installation of torch alone provides."""
PACKAGES = {
    "Bio": "biopython", "Crypto": "pycryptodome", "Levenshtein": "levenshtein", "OpenSSL": "pyOpenSSL",
    "PIL": "pillow", "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil",
    "docx": "python-docx", "dotenv": "python-dotenv", "faiss": "faiss-cpu", "fitz": "pymupdf",
    "flash_attn": "flash-attn", "git": "gitpython", "google": "protobuf", "hydra": "hydra-core",
    "huggingface_hub": "huggingface-hub", "lightning_fabric": "lightning", "mpl_toolkits": "matplotlib",
    "nemo": "nemo_toolkit", "omegaconf": "omegaconf", "parselmouth": "praat-parselmouth",
    "pkg_resources": "setuptools<81", "pyannote": "pyannote.audio", "pynvml": "nvidia-ml-py",
    "pytorch_lightning": "pytorch-lightning", "skimage": "scikit-image", "sklearn": "scikit-learn",
    "slugify": "python-slugify", "speech_recognition": "SpeechRecognition", "umap": "umap-learn",
    "whisper": "openai-whisper", "yaml": "pyyaml", "zmq": "pyzmq",
}  # fmt: skip
"""The names of packages that differ from the names of their modules."""
TRACKERS = ("tensorboard", "wandb", "mlflow")
"""The trackers of transformers and accelerate whose packages have the same names."""
TRACKER_ARGUMENTS = ("report_to", "log_with")
TRACKER_LOGGERS = {"WandbLogger": "wandb", "MLFlowLogger": "mlflow"}
"""The loggers of Lightning that need the package of a tracker as soon as they are created."""
OWN_MODULES = (b"sys.modules", b"addsitedir", b"site-packages")
"""Text in a file that replaces modules, or that makes Python search the packages of another environment."""
OWN_PATH = b"sys.path"
"""Text in a file that makes Python search more folders, usually folders of the project."""
INDIRECT = (b"subprocess", b"os.system", b"os.exec", b"os.spawn", b"runpy", b"importlib", b"__import__", b"hydra")
"""Text in a file that may start other files of the project."""
WELL_KNOWN_NAMES = """
accelerate aiohttp albumentations audiomentations av bitsandbytes boto3 click datasets deepspeed diffusers editdistance
einops evaluate fairseq fastapi fire ftfy g2p_en gradio h5py hydra jiwer joblib kaldiio lhotse librosa lightning
loguru markdown matplotlib mir_eval mlflow nemo nltk noisereduce numba numpy onnx onnxruntime openai optuna pandas
parselmouth peft pesq phonemizer plotly polars praatio protobuf psutil pyannote pyarrow pydantic pydub pyloudnorm pystoi
pyworld ray regex requests resampy rich rouge_score s3prl sacrebleu safetensors scipy seaborn sentence_transformers
sentencepiece silero_vad six sounddevice soundfile soxr spacy speechbrain streamlit tabulate tensorboard tensorboardX
tensorflow termcolor textgrid tiktoken timm tokenizers torch torchaudio torchcodec torchdata torchmetrics torchtext
torchvision tqdm transformers trl typer ujson umap unidecode unsloth wandb webdataset webrtcvad xformers
"""
WELL_KNOWN = frozenset(WELL_KNOWN_NAMES.split()) | frozenset(PACKAGES)
"""Modules of published packages. No script adds a folder to its search path for them."""


@dataclass(frozen=True)
class Loaded:
    """A file of the project that a script loads at its start, and the installed modules that it imports."""

    path: str
    data: bytes
    installed: tuple[str, ...] = ()


@dataclass(frozen=True)
class PythonFiles:
    """The Python files that a command reaches; unless `is_complete`, it may also load others."""

    paths: frozenset[str] = frozenset()
    is_complete: bool = False


def imports_of_script(
    tree: Tree, command: Sequence[str], search_path: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Return the script of the command, and the top-level modules that it and its local modules import at their start.

    Imports in functions, conditions and `try` are not included, and neither are modules of Python and of the project.
    If the script adds folders to the search path, only modules of well-known packages are included. Return ("", ()) if
    the command names no script of the project, or if the script replaces modules. `search_path` are the project's
    folders in PYTHONPATH.
    """
    script, files = files_of_script(tree, command, search_path)
    modules = dict.fromkeys(module for file in files for module in file.installed)
    return script, tuple(modules)


def imports_of_command(
    tree: Tree, command: Sequence[str], search_path: Sequence[str] = ()
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return `imports_of_script` of each script that the command starts, also through shell scripts."""
    found = ((script, files) for script, files in files_of_scripts(tree, command, search_path))
    modules = ((script, dict.fromkeys(each for file in files for each in file.installed)) for script, files in found)
    return tuple((script, tuple(own)) for script, own in modules if own)


def files_of_scripts(
    tree: Tree, command: Sequence[str], search_path: Sequence[str]
) -> Iterator[tuple[str, list[Loaded]]]:
    """Yield each script that the command starts, also through shell scripts, and the files that it loads."""
    script, files = files_of_script(tree, command, search_path)
    if script:
        yield script, files
        return
    for each in scripts_of_shell(tree, command):
        yield files_of_script(tree, ("python", each), search_path)


def trackers_of_script(tree: Tree, command: Sequence[str]) -> tuple[str, ...]:
    """Return the trackers that the script and its local modules use.

    They are passed as strings to `report_to` or `log_with`, or are loggers of Lightning that are created in any case.
    """
    _, files = files_of_script(tree, command)
    named = {name for file in files for name in _trackers(file.data)}
    return tuple(name for name in TRACKERS if name in named)


def files_of_script(tree: Tree, command: Sequence[str], search_path: Sequence[str] = ()) -> tuple[str, list[Loaded]]:
    """Return the script of the command, and the files that it loads at its start."""
    paths = {path for path in tree.paths() if path.endswith(".py")}
    start = start_of(command, paths, search_path)
    local = {part for path in paths for part in path.removesuffix(".py").split("/")}
    index = ModuleIndex(paths)
    files: list[Loaded] = []
    new, seen, extended = [*start.packages, start.path] if start.path else [], set[str](), False
    for path in new:
        if path in seen:
            continue
        seen.add(path)
        data, folder = _read_code(tree, path), posixpath.dirname(path)
        if any(word in data for word in OWN_MODULES):
            return "", []
        extended = extended or OWN_PATH in data
        own, installed = _own_and_installed(data, local)
        files.append(Loaded(path, data, installed))
        for module in dict.fromkeys(own):
            loaded = tuple(_files_loaded(module, folder, paths, start.roots))
            new += loaded or (index.files_of(module, folder) if extended else ())
    return start.path, _only_well_known(files) if extended else files


def _read_code(tree: Tree, path: str) -> bytes:
    """Return the content of a file, or b"" if it is too large to be analysed."""
    with suppress(OSError):
        data = tree.read(path)
        return data if len(data) <= LARGEST_BYTES else b""
    return b""


def _only_well_known(files: list[Loaded]) -> list[Loaded]:
    return [replace(file, installed=tuple(one for one in file.installed if one in WELL_KNOWN)) for file in files]


def _own_and_installed(data: bytes, local: Collection[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the names of the project's modules that the file imports at its start, and the other top-level modules.

    `local` are the names of the project's files and folders. Modules of Python are left out.
    """
    own: list[str] = []
    installed: list[str] = []
    for module in _imports(data):
        root = module.lstrip(".").partition(".")[0]
        if module.startswith(".") or root in local:
            own.append(module)
        elif root not in sys.stdlib_module_names:
            installed += [root, *(["tensorboard"] if module.startswith("torch.utils.tensorboard") else [])]
    return own, tuple(installed)


def python_files_reached(tree: Tree, command: Sequence[str]) -> PythonFiles:
    """Return the Python files of the command and every file that they may import, anywhere in their code.

    They are not complete if the command starts no known Python file, or if a file starts programs or imports modules by
    computed names.
    """
    started = python_files_of(tree, command)
    if started is None:
        return PythonFiles()
    index, new, seen = ModuleIndex({path for path in tree.paths() if path.endswith(".py")}), [*started], set[str]()
    is_complete = True
    for path in new:
        if path in seen:
            continue
        seen.add(path)
        data = _read_code(tree, path)
        is_complete = is_complete and not any(word in data for word in INDIRECT)
        for module in _imports(data, anywhere=True):
            new += index.files_of(module, posixpath.dirname(path))
    return PythonFiles(frozenset(seen), is_complete)


def judge_only_torch(tree: Tree, config: Mapping[str, Any], *, keep: bool) -> Finding:
    """Return the finding that only torch would be installed, with the packages that the command's script needs.

    If the script needs other packages, the finding is an error. It is a warning if these packages may be in the venv,
    which exists already (`keep`), or in PYTHONPATH.
    """
    script, modules = imports_of_script(tree, config.get("command") or ())
    trackers = trackers_of_script(tree, config.get("command") or ())
    missing = tuple(dict.fromkeys((*packages_of(lacking_with_only_torch(modules)), *trackers)))
    imports = f", but {script} needs {', '.join(missing)}" if missing else ""
    hint = f"write {REQUIREMENTS}, one package a line: {', '.join(missing)}" if missing else ""
    message = f"no {REQUIREMENTS}: only torch would be installed{imports}"
    if missing and not keep and "PYTHONPATH" not in (config.get("env") or {}):
        return error("environment", message, "fixers.environment", hint, exit_code=ExitCode.ENVIRONMENT)
    return warning("environment", message, "fixers.environment", hint)


def lacking_with_only_torch(modules: Collection[str]) -> tuple[str, ...]:
    """Return the modules that an environment with only torch lacks."""
    return tuple(module for module in modules if module not in WITH_TORCH)


def packages_of(modules: Collection[str]) -> tuple[str, ...]:
    """Return the names under which pip installs the modules."""
    return tuple(PACKAGES.get(module, module) for module in modules)


def _trackers(data: bytes) -> Iterator[str]:
    """Yield the strings in the arguments `report_to` and `log_with` of calls, and the trackers of loggers."""
    if not any(name.encode() in data for name in (*TRACKER_ARGUMENTS, *TRACKER_LOGGERS)):
        return
    try:
        tree = parse_python(data)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in TRACKER_ARGUMENTS:
            values = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            yield from (one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str))
    yield from _loggers(tree)


def _loggers(node: ast.AST) -> Iterator[str]:
    """Yield the trackers of the loggers that the code creates outside conditions and `try`."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        yield from [TRACKER_LOGGERS[name]] if name in TRACKER_LOGGERS else []
    if not isinstance(node, ast.If | ast.IfExp | ast.Try | ast.BoolOp | ast.Match):
        for child in ast.iter_child_nodes(node):
            yield from _loggers(child)


def _imports(data: bytes, *, anywhere: bool = False) -> Iterator[str]:
    """Yield the names that statements outside functions and blocks, or `anywhere`, import.

    Relative names begin with dots.
    """
    try:
        module = parse_python(data)
    except SyntaxError:
        return
    for node in ast.walk(module) if anywhere else module.body:
        yield from imported_names(node)


def _files_loaded(module: str, folder: str, paths: Collection[str], roots: Sequence[str]) -> Iterator[str]:
    """Yield the files of the module, and of the packages that contain it."""
    bare = module.lstrip(".")
    for name in accumulate(bare.split("."), "{}.{}".format):
        yield from files_of(f"{module.removesuffix(bare)}{name}", folder, paths, roots)
