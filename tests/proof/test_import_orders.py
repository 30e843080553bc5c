"""The hooks work however torch is imported; the live watch uses the same hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

from remote.payload.proof.injection import python_path, write_hooks
from tests.lab.wait import PATIENCE_S

ORDERS = Path(__file__).parent / "scripts" / "orders.py"
PACKAGES = {
    "torch": "import torch",
    "transformers": "import transformers",
    "peft": "from peft import LoraConfig",
    "datasets": "import datasets",
    "accelerate": "from accelerate import Accelerator",
    "lightning": "import lightning",
    "trl": "import trl",
}
# All ordered pairs take minutes; `make soak` runs them.
EVERY_PAIR = bool(os.environ.get("HALFSTEP_EVERY_PAIR"))
LONGEST_S = PATIENCE_S * (8 if EVERY_PAIR else 1)
FIRST = {**PACKAGES, "find_spec": "import importlib.util; importlib.util.find_spec('torch')"}
STEP = """
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
"""
IMPORT_AND_STEP = "import torch\n" + STEP
# A user's finder in front of all others that does not delegate, like those of typeguard and pytest.
FINDER_IN_FRONT = """
import sys
from importlib.machinery import PathFinder, SourceFileLoader


class Instrumenting(SourceFileLoader):
    def exec_module(self, module):
        executed.append(module.__name__)
        super().exec_module(module)

class InFront:
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("torch"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader.__class__ = Instrumenting
        return spec

executed = []
"""


@pytest.fixture(scope="session")
def hooks(tmp_path_factory) -> str:
    return write_hooks(str(tmp_path_factory.mktemp("hooks")))


@pytest.fixture
def python(hooks, tmp_path):
    """A function that runs Python under the hooks of a proof with an unreachable number of steps, or of a watch."""
    (tmp_path / "reports").mkdir()

    def run(*words: str, watch: bool = False, path: str = "") -> str:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": python_path(hooks, {"PYTHONPATH": path})}
        environment["HALFSTEP_WATCH" if watch else "HALFSTEP_PROOF"] = str(tmp_path / "reports")
        argv = [sys.executable, *words]
        done = subprocess.run(
            argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def reports(folder: Path) -> dict[int, int]:
    """Return how many optimizer steps the hooks reported, by pid."""
    found = [(path.stem.split("-")[2], json.loads(path.read_text())) for path in folder.glob("reports/rank-*.json")]
    return {int(pid): len(report["steps"]) for pid, report in found}


@pytest.mark.timeout(LONGEST_S + 60)
@pytest.mark.parametrize("first", FIRST)
def test_a_step_is_recorded_whichever_package_is_imported_first(first, python, tmp_path):
    others = (PACKAGES[name] for name in PACKAGES if name != first and EVERY_PAIR)
    seconds = ["pass", *others]
    leaves = json.loads(python(str(ORDERS), FIRST[first], *seconds).splitlines()[-1])
    seen = reports(tmp_path)
    assert {second: seen.get(pid) for second, pid in leaves.items()} == dict.fromkeys(seconds, 1)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_step_is_recorded_with_all_packages_in_either_import_order(backwards, python, tmp_path):
    imports = list(PACKAGES.values())
    python("-c", "\n".join([*(reversed(imports) if backwards else imports), IMPORT_AND_STEP]))
    assert list(reports(tmp_path).values()) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "import importlib.util\nimportlib.util.find_spec('torch.optim.optimizer')\n" + IMPORT_AND_STEP,
        "import importlib.util\nfor _ in range(3): importlib.util.find_spec('torch')\n" + IMPORT_AND_STEP,
        "import pkgutil\npkgutil.find_loader('torch')\nlist(pkgutil.iter_modules())\n" + IMPORT_AND_STEP,
        "import importlib.metadata as metadata\nmetadata.version('torch')\n" + IMPORT_AND_STEP,
        "import importlib\ntorch = importlib.import_module('torch')\n" + STEP,
        "import threading\nthread = threading.Thread(target=lambda: exec('import torch'))\nthread.start()\n"
        "thread.join()\n" + IMPORT_AND_STEP,
        "import importlib.util, sys\nspec = importlib.util.find_spec('torch')\n"
        "torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(torch)\n" + STEP,
        "import importlib.util, sys\nspec = importlib.util.find_spec('torch')\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\n"
        "torch = sys.modules['torch'] = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(torch)\n"
        "assert 'torch._C' not in sys.modules, 'it is no longer lazy'\n" + STEP,
        "import importlib, torch\nimportlib.reload(importlib.import_module('torch.optim.optimizer'))\n" + STEP,
        "import importlib, sys, torch\nfor name in ('amp.grad_scaler', 'nn.modules.module', 'utils.checkpoint'):\n"
        "    importlib.reload(sys.modules['torch.' + name])\n" + STEP,
        FINDER_IN_FRONT + "sys.meta_path.insert(0, InFront())\n" + IMPORT_AND_STEP + "assert 'torch' in executed\n",
        FINDER_IN_FRONT + "sys.meta_path = [InFront(), *sys.meta_path[-3:]]\n" + IMPORT_AND_STEP,
        "import os, sys\npid = os.fork()\nif pid == 0:\n    exec('''" + IMPORT_AND_STEP + "''')\n    sys.exit()\n"
        "os.waitpid(pid, 0)\n",
    ],
    ids=[
        "find_spec of a submodule",
        "find_spec three times",
        "pkgutil",
        "importlib.metadata",
        "import_module",
        "a thread imports it",
        "executed by hand",
        "LazyLoader",
        "torch.optim.optimizer reloaded",
        "other modules reloaded",
        "a finder in front",
        "another list of finders",
        "a fork before the import",
    ],
)
def test_a_step_is_recorded_however_torch_is_found(code, python, tmp_path):
    python("-c", code)
    assert list(reports(tmp_path).values()) == [1]


def test_an_import_of_torch_that_fails_at_first_is_waited_for(python, tmp_path):
    broken = tmp_path / "broken" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise OSError('libcudart.so: cannot open shared object file')\n")
    code = (
        f"import sys\nsys.path.insert(0, {str(broken.parent)!r})\n"
        "try:\n    import torch\nexcept OSError:\n    sys.path.pop(0)\n" + IMPORT_AND_STEP
    )
    python("-c", code)
    assert list(reports(tmp_path).values()) == [1]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_step_in_a_multiprocessing_child_is_recorded(method, python, tmp_path):
    (tmp_path / "train.py").write_text(
        "import multiprocessing, sys, torch\n"
        "def train():\n    torch.set_num_threads(1)\n    " + STEP.strip().replace("\n", "\n    ") + "\n"
        "if __name__ == '__main__':\n"
        f"    child = multiprocessing.get_context({method!r}).Process(target=train)\n"
        "    child.start()\n    child.join()\n    sys.exit(child.exitcode)\n"
    )
    python("train.py")
    assert list(reports(tmp_path).values()) == [1]


def test_a_step_is_recorded_in_every_way_to_start_a_program(python, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(IMPORT_AND_STEP)
    zipapp.create_archive(package, tmp_path / "app.pyz")
    (tmp_path / "train.py").write_text(IMPORT_AND_STEP)
    python("-m", "package")
    python("app.pyz")
    python("-P", "-c", "import runpy\nrunpy.run_path('train.py', run_name='__main__')\n")
    assert list(reports(tmp_path).values()) == [1, 1, 1]


@pytest.mark.parametrize("body", ["import torch\n", "raise ImportError('not for us')\n", "import sitecustomize\n"])
def test_the_user_s_sitecustomize_still_runs_and_does_not_hide_the_hooks(body, python, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(f"import os\nos.environ['OWN_RAN'] = 'yes'\n{body}")
    assert python("-c", IMPORT_AND_STEP + "import os\nprint(os.environ['OWN_RAN'])\n", path=str(own)) == "yes\n"
    assert list(reports(tmp_path).values()) == [1]


def test_a_sitecustomize_earlier_on_the_path_that_runs_the_next_one_runs_once(python, hooks, tmp_path):
    front, behind = tmp_path / "front", tmp_path / "behind"
    for folder in (front, behind):
        folder.mkdir()
    # As ddtrace-run and coverage do.
    (front / "sitecustomize.py").write_text(
        "import importlib, os, sys\nprint('front')\nsys.path.remove(os.path.dirname(__file__))\n"
        "del sys.modules['sitecustomize']\nimport sitecustomize\n"
    )
    (behind / "sitecustomize.py").write_text("print('behind')\n")
    script = tmp_path / "start.py"
    script.write_text(
        "import os, sys\n"
        f"os.environ['PYTHONPATH'] = os.pathsep.join([{str(front)!r}, {hooks!r}, {str(behind)!r}])\n"
        "os.execv(sys.executable, [sys.executable, 'train.py'])\n"
    )
    (tmp_path / "train.py").write_text(IMPORT_AND_STEP)
    assert python(str(script)) == "front\nbehind\n"
    assert list(reports(tmp_path).values()) == [1]


@pytest.mark.parametrize("first", ["transformers", "find_spec"])
def test_the_live_watch_records_the_step_too(first, python, tmp_path):
    python("-c", f"{FIRST[first]}\n{IMPORT_AND_STEP}", watch=True)
    assert json.loads((tmp_path / "reports" / "progress.json").read_text())["step"] == 1
