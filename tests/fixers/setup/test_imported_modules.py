"""The modules that a script imports whenever it starts."""

import pytest

from fixers.setup.imported_modules import (
    PythonFiles,
    files_of_script,
    imports_of_script,
    lacking_with_only_torch,
    packages_of,
    python_files_reached,
    trackers_of_script,
)
from fixers.sources.syntax import LARGEST_BYTES
from tests.fixers.setup_rig import MemoryTree

LOCAL = {"own/__init__.py": b"from .parts import part\nimport cv2\n", "own/parts.py": b"import sklearn.svm\n"}


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        (b"import numpy, torch.nn as nn\n", ("numpy", "torch")),
        (b"from transformers import Trainer\nimport json\n", ("transformers",)),
        (b"from torch.utils.tensorboard import SummaryWriter\n", ("torch", "tensorboard")),
        (b"from torch.utils import tensorboard\n", ("torch", "tensorboard")),
        (b"import own\n", ("cv2", "sklearn")),
        (b"from own import parts\n", ("cv2", "sklearn")),
        (b"try:\n    import flash_attn\nexcept ImportError:\n    pass\n", ()),
        (b"def f():\n    import librosa\n", ()),
        (b'"""\nimport prose\n"""\n', ()),
        (b"import sys\nsys.path.append('x')\nimport elsewhere\n", ()),
        (b"import sys\nsys.path.append('x')\nimport elsewhere, numpy\nimport sklearn\n", ("numpy", "sklearn")),
        (
            b"import sys\nfrom pathlib import Path\nDIR = Path(__file__).resolve().parent\nsys.path.append(str(DIR))\n"
            b"import own\nimport transformers\nimport seaborn\n",
            ("transformers", "seaborn", "cv2", "sklearn"),
        ),
        (b"import sys\nsys.path.append('/opt/x/lib/python3.11/site-packages')\nimport numpy\n", ()),
        (b"import sys\nsys.modules['numpy'] = object()\nimport numpy\n", ()),
        (b"import (\n", ()),
    ],
)
def test_only_imports_that_always_happen_count(source, modules):
    tree = MemoryTree({"train.py": source, "other.py": b"import unused\n", **LOCAL})
    assert imports_of_script(tree, ("python", "train.py"))[1] == modules


def test_a_relative_import_of_a_package_loads_the_package_too():
    tree = MemoryTree({"own/train.py": b"from . import parts\n", **LOCAL})
    assert imports_of_script(tree, ("python", "-m", "own.train"))[1] == ("cv2", "sklearn")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python", "-u", "./train.py", "--epochs", "3"], "train.py"),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train.py"),
        (["python", "-m", "own.parts"], "own/parts.py"),
        (["uv", "run", "train.py"], ""),
        (["python", "elsewhere.py"], ""),
        (["python", "-m", "own"], "own/__main__.py"),
        (["python", "own", "--epochs", "3"], "own/__main__.py"),
        (["python3", "-u", "-m", "made.step"], "src/made/step.py"),
        (["torchrun", "--nproc-per-node", "2", "-m", "own.parts"], "own/parts.py"),
        (["accelerate", "launch", "--module", "--num_processes", "2", "made.step"], "src/made/step.py"),
        (["python", "-m", "torch.distributed.run", "--module", "own", "train"], "own/__main__.py"),
        (["python", "-m", "accelerate.commands.launch", "train.py"], "train.py"),
        (["python", "-m", "own.absent"], ""),
        (["python", "-m", ".own"], ""),
        (["deepspeed", "own"], "own/__main__.py"),
        (["accelerate", "launch", "own"], ""),
        ([], ""),
    ],
)
def test_the_script_is_found_in_commands_that_use_the_host_s_interpreter(command, script):
    more = {"own/__main__.py": b"", "src/made/step.py": b""}
    tree = MemoryTree({"train.py": b"import numpy\n", **more, **LOCAL})
    assert imports_of_script(tree, command)[0] == script


def test_a_module_loads_the_packages_that_contain_it_and_the_modules_beside_them():
    files = {"a/__init__.py": b"import tqdm\n", "a/b/__init__.py": b"import jiwer\n"}
    files |= {"a/b/__main__.py": b"from a import more\nfrom .near import x\n"}
    files |= {"a/more.py": b"import librosa\n", "a/b/near.py": b"import soxr\n"}
    command = ["torchrun", "-m", "a.b"]
    assert imports_of_script(MemoryTree(files), command) == ("a/b/__main__.py", ("tqdm", "jiwer", "librosa", "soxr"))
    assert python_files_reached(MemoryTree(files), command) == PythonFiles(frozenset(files), True)


def test_a_module_is_searched_in_the_folders_of_pythonpath():
    files = {"code/lib/tool/run.py": b"import beside\nimport jiwer\n", "code/lib/beside.py": b"import soxr\n"}
    command = ["python", "-m", "tool.run"]
    assert imports_of_script(MemoryTree(files), command) == ("", ())
    assert imports_of_script(MemoryTree(files), command, ["code/lib"]) == ("code/lib/tool/run.py", ("jiwer", "soxr"))


def test_modules_are_named_as_pip_names_them():
    assert lacking_with_only_torch(("torch", "numpy", "sympy", "cv2")) == ("numpy", "cv2")
    assert packages_of(("numpy", "cv2")) == ("numpy", "opencv-python")
    assert packages_of(("pkg_resources", "hydra", "umap")) == ("setuptools<81", "hydra-core", "umap-learn")


@pytest.mark.parametrize(
    ("source", "trackers"),
    [
        (b'def main():\n    TrainingArguments("out", report_to=["tensorboard"])\n', ("tensorboard",)),
        (b'a = Accelerator(log_with="wandb")\n', ("wandb",)),
        (b'a = TrainingArguments(report_to=("mlflow", "wandb"))\n', ("wandb", "mlflow")),
        (b'a = TrainingArguments(report_to="none")\n', ()),
        (b"a = TrainingArguments(report_to=args.report_to)\n", ()),
        (b'# report_to=["tensorboard"]\nname = "tensorboard"\n', ()),
        (b"import own\n", ("mlflow",)),
        (b"import elsewhere\n", ()),
        (b"report_to = (\n", ()),
        (b"def main():\n    trainer = Trainer(logger=[loggers.WandbLogger(), MLFlowLogger()])\n", ("wandb", "mlflow")),
        (b"from lightning.pytorch.loggers import WandbLogger\n", ()),
        (b"def main(args):\n    if args.wandb:\n        logger = WandbLogger()\n", ()),
        (b"logger = WandbLogger() if args.wandb else None\n", ()),
    ],
)
def test_trackers_are_read_from_the_arguments_of_calls(source, trackers):
    own = {"own.py": b'args = dict(report_to=["mlflow"])\n'}
    tree = MemoryTree({"train.py": source, "other.py": b'f(report_to="wandb")\n', **own})
    assert trackers_of_script(tree, ("python", "train.py")) == trackers


def test_a_module_in_a_folder_that_the_script_adds_to_the_search_path_is_followed():
    script = b"import sys\nsys.path.insert(0, str(HERE / 'lib'))\nimport reading\n"
    tree = MemoryTree({"run/train.py": script, "lib/reading.py": b"import librosa\nimport private_package\n"})
    assert imports_of_script(tree, ("python", "run/train.py"))[1] == ("librosa",)


def test_SE_a_module_that_is_imported_many_times_is_looked_up_once():
    read = []

    class Counting(MemoryTree):
        def read(self, path):
            read.append(path)
            return super().read(path)

    source = b"import " + b"own," * 5000 + b"own\n"
    assert imports_of_script(Counting({"train.py": source, **LOCAL}), ["python", "train.py"])[1] == ("cv2", "sklearn")
    assert len(read) < 10


def test_SE_the_content_of_a_file_that_is_too_large_to_be_analysed_is_not_kept():
    files = {"train.py": b"import data\n", "data.py": b"import numpy\n#" + b"#" * LARGEST_BYTES}
    script, loaded = files_of_script(MemoryTree(files), ("python", "train.py"))
    assert script == "train.py"
    assert [(file.path, file.data) for file in loaded] == [("train.py", b"import data\n"), ("data.py", b"")]
