"""Which files start a training program, which modules belong to it, and which of their functions it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.sources.launched import scripts_in
from tests.fixers.plans.program_files import ACCELERATE, DEMO, LOOP, PARSED, SHARED, changed, planned

OWN_FUNCTION = """import torch


class Cut(torch.autograd.Function):
    @staticmethod
    def backward(ctx, grad):
        return kernels.backward(grad)


DTYPE = torch.bfloat16
"""
LOADER = "import importlib\n\nbuild = importlib.import_module({name}).build\n"
BUILDS = "import torch\n\n\ndef build():\n    return torch.nn.Linear(2, 2).to(torch.bfloat16)\n"
PLAIN = "import torch\nfrom lib import model_of\n\nnet = model_of()\nnet.to(torch.bfloat16)\n"
HELPERS = """import torch


def cast(batch):
    return batch.to(torch.float32)


{decorator}def narrow(batch):
    return batch.to(torch.bfloat16)
"""
SELF_TEST = (
    f"{HELPERS.format(decorator='').partition('def narrow')[0]}import sys\n\nif __name__ == '__main__':\n    "
    "print(cast(torch.ones(2, dtype=torch.bfloat16)))\n"
)
IMPORTS = f"import importlib.util\nfrom helpers import cast\n{ACCELERATE}"


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        (b"python ${HERE}/run/train.py --x $A/b.py", ("/run/train.py", "A/b.py")),
        (b"torchrun -m pkg.train\npython a.py", ("a.py", "pkg/train.py", "pkg/train/__main__.py")),
        (b"a.pyc train.py.bak x/.py end.py\n", ("train.py", "x/.py", "end.py")),
        (b"a" * 5_000, ()),
    ],
)
def test_the_scripts_in_a_text_are_found_also_beside_very_long_words(text: bytes, scripts: tuple[str, ...]) -> None:
    assert scripts_in(text) == scripts


ARGUMENTS = 'model="\\\n    --rank 8 \\\n"\ntraining="\\\n    --lr 1 \\\n    --bf16 \\\n"\n'


@pytest.mark.parametrize(
    "command",
    [
        "python -m lib.tune --bf16 True\n",
        f'{ARGUMENTS}cmd="torchrun \\\n    -m lib.tune \\\n    $model \\\n    $training \\\n"\neval $cmd\n',
    ],
    ids=["flags", "flags in strings"],
)
def test_a_command_that_starts_a_package_belongs_to_the_program_of_its_main_module(
    tmp_path: Path, command: str
) -> None:
    files = {"lib/tune/__main__.py": PARSED, "lib/tune/__init__.py": "", "examples/run.sh": command}
    after = changed(planned(tmp_path, files))
    assert after["examples/run.sh"] == command.replace("bf16", "fp16")
    other = {**files, "examples/run.sh": command.replace("lib.tune", "lib.serve")}
    assert "examples/run.sh" not in changed(planned(tmp_path / "other", other))


def test_a_backward_pass_of_a_function_of_its_own_does_not_make_an_evaluation_a_training(tmp_path: Path) -> None:
    evaluation = f"import sys\nimport kernel\n\nname = sys.argv[1]\n{DEMO}"
    files = {"train.py": ACCELERATE, "kernel.py": OWN_FUNCTION, "judge/answers.py": evaluation}
    assert set(changed(planned(tmp_path, files))) == {"train.py"}
    assert set(changed(planned(tmp_path, {"kernel.py": f"{OWN_FUNCTION}\n\nloss.backward()\n"}))) >= {"train.py"}


@pytest.mark.parametrize("folder", ["eval", "inference", "benchmark"])
def test_a_script_in_a_folder_of_evaluation_that_only_imports_training_code_stays(tmp_path: Path, folder: str) -> None:
    script = f"import sys\nimport engine\n\nname = sys.argv[1]\n{DEMO}"
    files = {"train.py": f"import engine\n{LOOP}", "engine.py": ACCELERATE.replace("bf16", "fp16")}
    assert set(changed(planned(tmp_path, {**files, f"{folder}/answers.py": script}))) == {"train.py"}
    assert f"{folder}/answers.py" not in changed(planned(tmp_path, {}))


SCORER = "import torch\n\n\nclass Settings:\n    dtype = torch.bfloat16\n"
ON_DEMAND = "def __getattr__(name):\n    from .scorer import Settings\n    return Settings\n"
IN_A_BRANCH = "TEXT = 'a'\nif scores:\n    from .scorer import Settings\n"


@pytest.mark.parametrize("package", [ON_DEMAND, IN_A_BRANCH], ids=["in a function", "in a branch"])
@pytest.mark.parametrize(("folder", "belongs"), [("eval/judges", False), ("core/judges", True)])
def test_an_import_in_a_function_of_evaluation_code_belongs_to_no_training(
    tmp_path: Path, package: str, folder: str, belongs: bool
) -> None:
    training = f"from {folder.replace('/', '.')}.prompt import TEXT\n{ACCELERATE}\nprint(package.Settings)\n"
    files = {f"{folder}/__init__.py": package, f"{folder}/prompt.py": "TEXT = 'a'\n", f"{folder}/scorer.py": SCORER}
    found = changed(planned(tmp_path, {"train.py": training, **files}))
    assert set(found) == {"train.py", *([f"{folder}/scorer.py"] if belongs else [])}
    always = {f"{folder}/__init__.py": f"from .scorer import Settings\n{package}"}
    assert f"{folder}/scorer.py" in changed(planned(tmp_path, always))


@pytest.mark.parametrize("kit", ["kit/models/voice.py", "voice_kit/lib/voice/__init__.py"])
def test_a_module_of_another_tool_with_the_name_of_an_imported_package_stays(tmp_path: Path, kit: str) -> None:
    training = f"from voice import build\n{ACCELERATE}\nbuild()\n"
    files = {"jobs/train.py": training, "voice/__init__.py": BUILDS, kit: BUILDS}
    assert set(changed(planned(tmp_path, files))) == {"jobs/train.py", "voice/__init__.py"}


@pytest.mark.parametrize(
    ("name", "belongs"),
    [('"diffusers"', False), ("'.model'", False), ("sys.argv[1]", True), ('"zoo." + kind', True), ("f'{kind}'", True)],
)
def test_modules_belong_to_a_program_that_imports_names_which_are_values(
    tmp_path: Path, name: str, belongs: bool
) -> None:
    files = {"train.py": f"{LOADER.format(name=name)}{ACCELERATE}", "zoo.py": BUILDS}
    assert set(changed(planned(tmp_path, files))) == {"train.py", *(["zoo.py"] if belongs else [])}


@pytest.mark.parametrize(
    ("names", "belongs"), [("kind = 'zoo'", True), ("kind = f'zoo.{x}'", True), ("# a zoo", False), ("zoo = 1", False)]
)
def test_a_module_whose_name_has_one_part_is_named_by_a_string(tmp_path: Path, names: str, belongs: bool) -> None:
    training = f"import importlib\n\n{names}\nbuild = importlib.import_module(kind).build\n{ACCELERATE}"
    found = changed(planned(tmp_path, {"deep/train.py": training, "zoo.py": BUILDS, "zoo/cage.py": BUILDS}))
    assert set(found) == {"deep/train.py", *(["zoo.py", "zoo/cage.py"] if belongs else [])}


def test_a_script_without_definitions_is_no_module_that_a_program_imports(tmp_path: Path) -> None:
    files = {"train.py": f"{LOADER.format(name='kind')}{ACCELERATE}", "show.py": PLAIN, "zoo.py": BUILDS}
    assert set(changed(planned(tmp_path, files))) == {"train.py", "zoo.py"}


@pytest.mark.parametrize("decorator", ["", "@torch.no_grad()\n"])
def test_a_function_that_no_program_calls_stays(tmp_path: Path, decorator: str) -> None:
    files = {"train.py": IMPORTS, "helpers.py": HELPERS.format(decorator=decorator)}
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == {"train.py"}
    assert [each.where.partition(":")[0] for each in plan.skipped] == ["helpers.py"]


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": IMPORTS, "helpers.py": HELPERS.format(decorator="@register('narrow')\n")},
        {"train.py": f"{IMPORTS}\nnarrow = helpers.narrow\n", "helpers.py": HELPERS.format(decorator="")},
        {
            "train.py": f"hydra.utils.instantiate(cfg)\n{IMPORTS}",
            "helpers.py": HELPERS.format(decorator=""),
            "conf/batch.yaml": "batch:\n  _target_: helpers.narrow\n",
        },
        {"train.py": IMPORTS, "helpers.py": f"{HELPERS.format(decorator='')}\n\nprint(narrow(ones))\n"},
        {"train.py": f"import helpers\n{ACCELERATE}", "helpers.py": SHARED},
    ],
    ids=["registered", "called", "named by a config", "called at import", "a constant"],
)
def test_a_function_that_a_program_may_call_is_changed(tmp_path: Path, files: dict[str, str]) -> None:
    assert set(changed(planned(tmp_path, files))) == {"train.py", "helpers.py"}


STARTED = SELF_TEST.replace(
    "if __name__", "@torch.no_grad()\ndef main():\n    print(torch.ones(2, dtype=torch.bfloat16))\n\n\nif __name__"
)


@pytest.mark.parametrize("helpers", [SELF_TEST, STARTED])
@pytest.mark.parametrize("training", [IMPORTS, f"hydra.utils.instantiate(cfg)\n{IMPORTS}"])
def test_the_test_in_a_module_that_others_import_stays(tmp_path: Path, training: str, helpers: str) -> None:
    files = {"train.py": training, "helpers.py": helpers}
    assert set(changed(planned(tmp_path, files))) == {"train.py"}


NETS = "import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n"
EXAMPLE = f"{NETS}\n\nif __name__ == '__main__':\n    " + LOOP.replace("\n", "\n    ").rstrip() + "\n"
USES = f"from lib.nets import Net\n{ACCELERATE}\nNet(2, 2)\n"


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": USES, "lib/nets.py": EXAMPLE},
        {"train.py": f"from lib.all import Net\n{ACCELERATE}", "lib/all.py": "from .nets import Net\n"},
        {"train.py": USES, "train.sh": "python train.py\n", "README.md": "lib/nets.py defines the model\n"},
    ],
    ids=["imported", "through another module", "not started"],
)
def test_a_training_loop_in_the_main_block_of_an_imported_module_is_an_example(
    tmp_path: Path, files: dict[str, str]
) -> None:
    plan = planned(tmp_path, {"lib/nets.py": EXAMPLE, **files})
    assert set(changed(plan)) == {"train.py"}
    assert "lib/nets.py" in [each.where.partition(":")[0] for each in plan.skipped]


@pytest.mark.parametrize(
    "files",
    [
        {"train.py": USES, "lib/nets.py": EXAMPLE, "run.sh": "python lib/nets.py\n"},
        {"train.py": USES, "lib/nets.py": EXAMPLE, "README.md": "```\npython -m lib.nets\n```\n"},
        {"lib/nets.py": EXAMPLE, "show.py": f"from lib.nets import Net\n\nnet = Net(2, 2)\n{DEMO}"},
        {"train.py": USES, "lib/nets.py": f"{EXAMPLE}\n\ndef fit(loss):\n    loss.backward()\n"},
        {"train.py": USES.replace("nets", "pretrain"), "lib/pretrain.py": EXAMPLE},
    ],
    ids=["command", "document", "no training imports it", "functions train too", "name of a training"],
)
def test_a_main_block_that_may_be_a_training_is_changed(tmp_path: Path, files: dict[str, str]) -> None:
    found = changed(planned(tmp_path, files))
    assert {"lib/nets.py", "lib/pretrain.py"} & set(found)


TASK = "from engine import run\n\n\ndef main():\n    run()\n\n\nif __name__ == '__main__':\n    main()\n"
PATCHED = "import patches\nfrom task import main\n\nif __name__ == '__main__':\n    main()\n"
NEEDS_FLASH = "from flash_attn import flash_attn_func\n\nprint(flash_attn_func)\n"
CHOSEN = """from transformers import HfArgumentParser, Trainer, TrainingArguments

TRAINERS = {"plain": Trainer}


def run():
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    trainer = TRAINERS["plain"](model, args)
    trainer.train()
"""


def test_a_script_that_a_command_starts_and_another_script_imports_is_a_program(tmp_path: Path) -> None:
    files = {"task.py": TASK, "patched.py": PATCHED, "patches.py": NEEDS_FLASH, "engine.py": CHOSEN}
    commands = {"run.sh": "torchrun task.py --bf16 True\n"}
    assert changed(planned(tmp_path, {**files, **commands})) == {"run.sh": "torchrun task.py --fp16 True\n"}
    commands = {"run.sh": "torchrun patched.py --bf16 True\n"}
    assert changed(planned(tmp_path / "patched", {**files, **commands})) == {}
