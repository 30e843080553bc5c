"""The calls of Weights & Biases in a script, and whether they run in any case."""

import pytest

from fixers.setup.imported_modules import files_of_script
from fixers.setup.wandb_uses import value_of, wandb_uses
from tests.fixers.setup_rig import MemoryTree


def uses(code, *options, **more):
    """Return the calls with True for those that are certain, of train.py started with these options."""
    files = {"train.py": code.encode(), **{f"{name}.py": text.encode() for name, text in more.items()}}
    command = ["python", "train.py", *options]
    return [(use.call, use.certain) for use in wandb_uses(*files_of_script(MemoryTree(files), command), command)]


MAIN = "if __name__ == '__main__':\n    main()\n"
INIT, LOGIN = "import wandb\n{}wandb.init(project='x')\n", "import wandb\n{}wandb.login()\n"


@pytest.mark.parametrize(
    ("code", "call"),
    [
        (INIT.format(""), "wandb.init"),
        (LOGIN.format(""), "wandb.login"),
        ("from wandb import init as start\nstart()\n", "wandb.init"),
        (f"def setup():\n    import wandb as w\n    w.login()\ndef main():\n    setup()\n{MAIN}", "wandb.login"),
        (
            "import wandb, fire\ndef main():\n    with wandb.init() as run:\n        pass\nfire.Fire(main)\n",
            "wandb.init",
        ),
        (INIT.format("if local_rank in (-1, 0):\n    "), "wandb.init"),
        (INIT.format("if accelerator.is_main_process and __name__ == '__main__':\n    "), "wandb.init"),
        ("from pytorch_lightning.loggers import WandbLogger\nlogger = WandbLogger(project='x')\n", "WandbLogger"),
        ("from lightning.pytorch import loggers\nx = Trainer(logger=[loggers.WandbLogger()])\n", "WandbLogger"),
        ("args = TrainingArguments('out', report_to=['tensorboard', 'wandb'])\n", 'report_to="wandb"'),
        ("accelerator = Accelerator(log_with='wandb')\n", 'log_with="wandb"'),
    ],
)
def test_a_call_that_always_runs_needs_a_key(code, call):
    assert uses(code) == [(call, True)]


GUARDED = [
    INIT.format("if args.wandb:\n    "),
    INIT.format("if args.use_wandb and rank == 0:\n    "),
    INIT.format("if not args.no_wandb:\n    "),
    INIT.format("if rank != 0:\n    "),
    INIT.format("if args.tracker == 'wandb':\n    "),
    INIT.format("if rank == 0:\n    pass\nelse:\n    "),
    LOGIN.format("try:\n    ").replace("login()", "login()\nexcept Exception:\n    pass"),
    "import wandb\ndef never():\n    wandb.init()\n",
    "import wandb\nclass Log:\n    def start(self):\n        wandb.init()\nLog().start()\n",
    "import wandb\nwandb.init(mode=args.mode)\n",
    "import wandb\nwandb.init(**options)\n",
    "import os, wandb\nwandb.login(key=os.environ.get('WANDB_API_KEY'))\n",
    "from lightning.pytorch.loggers import WandbLogger\nlogger = WandbLogger() if args.wandb else None\n",
    "def main(args):\n    import wandb\n    if args.wandb:\n        wandb.init()\nmain(args)\n",
]


@pytest.mark.parametrize("code", GUARDED)
def test_a_call_that_a_flag_guards_or_that_may_not_run_is_uncertain(code):
    assert [certain for _, certain in uses(code)] == [False]


@pytest.mark.parametrize(
    ("guard", "options", "certain"),
    [
        ("args.wandb", ["--wandb"], True),
        ("args.use_wandb", ["--use-wandb", "--epochs", "1"], True),
        ("cfg['wandb']", ["train.wandb=true"], True),
        ("args.tracker == 'wandb'", ["--tracker", "wandb"], True),
        ("args.tracker == 'wandb'", ["--tracker", "tensorboard"], False),
    ],
)
def test_a_flag_that_the_command_sets_guards_nothing(guard, options, certain):
    assert uses(INIT.format(f"if {guard}:\n    "), *options) == [("wandb.init", certain)]


@pytest.mark.parametrize(
    ("guard", "option"),
    [
        ("args.use_wandb", "--use_wandb=False"),
        ("self.cfg.log_to_wandb and is_master", "--log_to_wandb no"),
        ("cfg['wandb']", "wandb=false"),
    ],
)
def test_a_call_whose_flag_the_command_sets_to_false_is_no_use(guard, option):
    code = f"def start(self):\n    if {guard}:\n        try:\n            {INIT.format('').splitlines()[1]}\n"
    assert uses(f"import wandb\n{code}        finally:\n            pass\n", *option.split()) == []


@pytest.mark.parametrize(
    "code",
    [
        "import wandb\nwandb.init(mode='offline')\n",
        "import wandb\nwandb.init(mode='disabled')\n",
        "import wandb\nwandb.login(key='written-here')\n",
        "import os, wandb\nos.environ['WANDB_MODE'] = 'offline'\nwandb.init()\n",
        "from lightning.pytorch.loggers import WandbLogger\nWandbLogger(offline=True)\n",
        "import wandb\nimage = wandb.Image(x)\n",
        "def init():\n    pass\ninit()\nwandb = Own()\nwandb.init()\n",
        "from own import WandbLogger\nWandbLogger()\n",
        "args = TrainingArguments(report_to='none')  # not wandb\n",
        "import wandb (\n",
    ],
)
def test_a_call_that_needs_no_key_is_no_use(code):
    assert uses(code) == []


def test_a_local_module_that_starts_a_run_when_it_is_imported_counts():
    assert uses("import tracking\n", tracking=INIT.format("")) == [("wandb.init", True)]
    assert uses("import json\n", tracking=INIT.format("")) == []


def test_the_option_report_to_of_transformers_counts():
    code = "parser = HfArgumentParser(TrainingArguments)\n"
    assert uses(code, "--report_to", "wandb") == [("--report_to wandb", True)]
    assert uses(code, "--report_to", "none") == uses("import json\n", "--report_to", "wandb") == []


@pytest.mark.parametrize(
    ("command", "value"),
    [
        (["--a-b", "1"], "1"),
        (["--a_b=2"], "2"),
        (["--a_b", "--c"], ""),
        (["--a_b"], ""),
        (["x.a_b=3"], "3"),
        (["a_b"], None),
    ],
)
def test_the_value_of_an_option_is_read_from_the_command(command, value):
    assert value_of("a_b", command) == value


def test_SE_many_functions_that_call_each_other_take_linear_time():
    calls = "".join(f"def f{n}():\n    f{n + 1}()\n" for n in range(3000))
    assert uses(f"import wandb\n{calls}def f3000():\n    wandb.init()\nf0()\n") == [("wandb.init", True)]
