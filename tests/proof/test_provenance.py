"""The proof names the line where half precision entered, and the one setting that its value came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.payload.proof.value_origins import arguments_with, follow_use, settings_with

LOOP = """
model = mini.build().float()
optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)
for _ in range(6):
    with torch.autocast("cpu", {dtype}):
        loss = model(**mini.batch())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TOML = 'import tomllib\nwith open("conf/train.toml", "rb") as file:\n    cfg = tomllib.load(file)\n'
JSON = 'import json\ncfg = json.load(open("run.json"))\n'


def project(folder: Path, script: str, **files: str) -> Path:
    """Write a project with these files and return train.py.

    In the names, `__` stands for `/` and `--` for a dot.
    """
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "train.py").write_text("import mini\nimport torch\n" + script)
    return folder / "train.py"


def line_of(script: Path, text: str) -> int:
    return next(at for at, line in enumerate(script.read_text().splitlines(), 1) if text in line)


def message(report, check):
    return next(finding.message for finding in report.findings if finding.check == check)


def hint(report, check):
    return next(finding.hint for finding in report.findings if finding.check == check)


def test_a_dtype_from_a_settings_file_is_named_with_its_line(prove, tmp_path):
    files = {"conf__train.toml": '# dtype = "bf16" is for newer cards\n[train]\nsteps = 6\ndtype = "bfloat16"\n'}
    script = project(tmp_path, TOML + LOOP.format(dtype='getattr(torch, cfg["train"]["dtype"])'), **files)
    used = f"train.py:{line_of(script, 'torch.autocast')}"
    report = prove(script)
    assert message(report, "autocast").endswith(f"bfloat16 came from conf/train.toml:4, used at {used}")
    assert hint(report, "autocast") == "select float16 in conf/train.toml:4"
    assert [(one.kind, one.source, one.used) for one in report.origins] == [("autocast", "conf/train.toml:4", used)]


def test_a_flag_in_json_is_followed_through_a_name_of_the_script(prove, tmp_path):
    chosen = 'dtype = torch.bfloat16 if cfg["amp"]["use_bf16"] else torch.float16\n'
    files = {"run.json": '{\n  "steps": 6,\n  "amp": {"use_bf16": true}\n}\n'}
    script = project(tmp_path, JSON + chosen + LOOP.format(dtype="dtype"), **files)
    assert "bfloat16 came from run.json:3" in message(prove(script), "autocast")


@pytest.mark.parametrize(
    ("dtype", "files"),
    [
        ("torch.bfloat16", {"conf/train.toml": 'dtype = "bfloat16"\n'}),
        (
            'getattr(torch, cfg["a"]["dtype"])',
            {"conf/train.toml": '[a]\ndtype = "bfloat16"\n[b]\ndtype = "bfloat16"\n'},
        ),
    ],
    ids=["the line holds the dtype itself", "two settings hold it"],
)
def test_an_uncertain_source_of_a_dtype_is_not_named(dtype, files, prove, tmp_path):
    script = project(tmp_path, TOML + LOOP.format(dtype=dtype), **files)
    report = prove(script)
    text = message(report, "autocast")
    assert hint(report, "autocast") == "pipeline fix --only bf16-to-fp16"
    assert text.endswith(f"bfloat16 entered at train.py:{line_of(script, 'torch.autocast')}")


def test_an_argument_of_the_command_is_named(prove, tmp_path):
    parse = (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--amp-dtype')\n"
        "args = parser.parse_args()\n"
    )
    script = project(tmp_path, parse + LOOP.format(dtype="getattr(torch, args.amp_dtype)"))
    assert "bfloat16 came from --amp-dtype bfloat16" in message(
        prove(script, argv=("--amp-dtype", "bfloat16")), "autocast"
    )


def test_the_line_that_cast_trained_tensors_is_named(prove, tmp_path):
    script = project(tmp_path, "model = mini.build()\nmodel = model.half()\nmini.train(model, steps=3)\n")
    report = prove(script)
    assert message(report, "trainable-dtype").endswith("; float16 entered at train.py:4")


def test_installed_code_that_made_half_weights_is_named_and_the_runtime_offered(prove, tmp_path):
    package = "import mini\n\n\ndef load():\n    model = mini.build()\n    return model.half()\n"
    script = project(
        tmp_path,
        "import sys\nsys.path.insert(0, 'venv/site-packages')\nimport speechpack\n"
        "model = speechpack.load()\nmini.train(model, steps=3)\n",
        **{"venv__site-packages__speechpack.py": package},
    )
    report = prove(script)
    found = next(finding for finding in report.findings if finding.check == "trainable-dtype")
    assert found.message.endswith("; float16 entered at speechpack.py:6, called at train.py:6")
    assert found.hint == "fixers: {runtime: auto}"


def test_mixed_precision_from_the_environment_is_named(prove, tmp_path):
    script = project(
        tmp_path,
        "from accelerate import Accelerator\naccelerator = Accelerator(cpu=True)\nmodel = mini.build().float()\n"
        "optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)\n"
        "model, optimizer = accelerator.prepare(model, optimizer)\n"
        "for _ in range(6):\n    loss = model(**mini.batch())\n    accelerator.backward(loss)\n"
        "    optimizer.step()\n    optimizer.zero_grad()\n",
    )
    report = prove(script, environment={"ACCELERATE_MIXED_PRECISION": "bf16"})
    words = "bfloat16 came from env: ACCELERATE_MIXED_PRECISION=bf16, used at train.py:4"
    assert words in message(report, "autocast")


@pytest.mark.parametrize(
    ("source", "line", "keys", "literal"),
    [
        ("with autocast(dtype=torch.bfloat16):\n    pass\n", 1, set(), 1),
        ("d = torch.bfloat16\nmodel.to(d)\n", 2, set(), 1),
        ("model.to(DTYPES[cfg.precision])\nDTYPES = {'bf16': torch.bfloat16}\n", 1, {"precision"}, 0),
        ("if args.amp == 'bf16':\n    d = torch.bfloat16\nelse:\n    d = None\nmodel.to(d)\n", 5, {"amp"}, 0),
        ("TrainingArguments('out', bf16=True)\n", 1, set(), 1),
        ("TrainingArguments('out', bf16=cfg.get('half', False))\n", 1, {"half"}, 0),
    ],
)
def test_a_use_is_followed_to_the_setting_or_to_the_dtype_in_the_source(source, line, keys, literal):
    use = follow_use(source, line, "bfloat16")
    assert use.literal == literal
    assert keys <= use.keys


def test_settings_are_compared_by_key_and_value():
    texts = {"a.yaml": "dtype: bf16  # or fp16\nother: bf16\n# dtype: bf16\n", "b.json": '{"x": 1, "dtype": "float16"}'}
    assert settings_with(texts, frozenset({"dtype"}), "bfloat16") == ["a.yaml:1"]
    assert settings_with(texts, frozenset({"dtype"}), "float16") == ["b.json:1"]
    keys = frozenset({"dtype", "bf16"})
    words = ["train.py", "--lr", "1", "--bf16", "model.dtype=bfloat16", "--dtype", "float16"]
    assert arguments_with(words, keys, "bfloat16") == ["--bf16", "model.dtype=bfloat16"]
