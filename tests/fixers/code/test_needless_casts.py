"""No cast to float32 is inserted where the trained model is float32 already, or if the script already casts it."""

from __future__ import annotations

import pytest

from fixers.code import trainable_fp32
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from tests.fixers.casebook import TITAN_RTX

OLD_PEFT = {"peft": "0.11.1"}
HEAD = """import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel, ControlNetModel
from peft import cast_training_params, get_peft_model, prepare_model_for_kbit_training
from speech.models import Vits, GAN
from transformers import AutoModel, AutoModelForCausalLM

accelerator = Accelerator(mixed_precision="fp16")
"""
TAKES = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)\n"
HALF = 'model = AutoModel.from_pretrained("a/b", torch_dtype=torch.float16)\n'
OLD_LOAD = 'model = AutoModelForCausalLM.from_pretrained("a/b")\n'
LOOP = "for batch in loader:\n    model(batch).backward()\n    optimizer.step()\n"
STAYS = {
    "cast for the last evaluation": "model = Vits(config)\n"
    + TAKES
    + LOOP
    + "model.half()\nmodel.eval()\ntest(model)\n",
    "cast for an evaluation without gradients": "def main():\n    model = Vits(config)\n"
    "    optimizer = AdamW(model.parameters())\n    train(model, optimizer)\n    model = model.to(dtype=dtype)\n"
    "    with torch.no_grad():\n        print(model(batch))\n",
    "loaded by an older transformers, by an import": "from transformers.utils import get_full_repo_name\n\n"
    + OLD_LOAD
    + TAKES,
    "loaded by an older transformers, by another import": "from transformers import AdamW as Adam\n\n"
    + OLD_LOAD
    + TAKES,
    "activations of a part that are cast": "def step(model, x):\n"
    "    return model.backbone(x, mask=None).to(x.dtype)\n\n\nmodel = Vits(config)\n" + TAKES,
    "built by its class": "model = Vits(config, tokenizer)\n" + TAKES,
    "built by a class in capitals": "model = GAN(config)\n" + TAKES,
    "built by a method of its class": "model = Vits.init_from_config(config)\n" + TAKES,
    "an encoder that is loaded without a dtype": 'model = AutoModel.from_pretrained("a/b")\n' + TAKES,
    "an argument of a function": "def train(model):\n    " + TAKES,
    "an argument that is a float32 model": "def train(model):\n    " + TAKES + "\n\ntrain(Vits(config))\n",
    "built by a function of another file": "from speech.build import get_model\n\nmodel = get_model(config)\n" + TAKES,
    "one of several results": "from speech.build import load\n\nmodel, tokenizer = load(config)\n" + TAKES,
    "built of numbers": "model = Vits(len(symbols), int(size), **hps.model)\n" + TAKES,
    "a part of a float32 model": "net = Vits(config)\nmodel = net.encoder\n" + TAKES,
    "kept by an object of another file": "class Run(Base):\n    def make(self):\n"
    "        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)\n",
    "loaded by diffusers": 'model = UNet2DConditionModel.from_pretrained("a/b", subfolder="unet")\n' + TAKES,
    "cast only where it is not trained": "model = Vits(config)\nif not args.train_model:\n    model.half()\n" + TAKES,
    "moved by a keyword": "model = Vits(config)\nmodel = model.to(device=options.get('device', 'cuda'))\n" + TAKES,
    "moved to the result of a call": "model = Vits(config).to(get_device(0))\n" + TAKES,
    "one of two float32 models": "model = Vits(a) if args.a else GAN(b)\n" + TAKES,
    "derived from one": 'unet = UNet2DConditionModel.from_pretrained("a/b")\nmodel = ControlNetModel.from_unet(unet)\n'
    + TAKES,
    "built by a function of the file": "def get_model(p):\n    model = Vits(p)\n    return model\n\n\n"
    "model = get_model(args)\n" + TAKES,
    "built of parts by functions of the file": "def get_encoder(p):\n    return GAN(p)\n\n\n"
    "def get_model(p):\n    encoder = get_encoder(p)\n    model = Vits(encoder=encoder, size=p.size)\n"
    "    return model\n\n\n"
    "model = get_model(args)\nmodel.to(device)\n" + TAKES,
    "its average is kept in float64": "import copy\n\nmodel = Vits(config)\n"
    "average = copy.deepcopy(model).to(torch.float64)\n" + TAKES,
    "sizes are no models": "model = Vits(d_model=p.d_model, n_layer=p.n_layer, num_layers=p.num_layers)\n" + TAKES,
    "other models are half": 'model = Vits(config)\nvae = load("vae")\nvae.to("cuda", dtype=weight_dtype)\n' + TAKES,
    "unwrapped at the end": "model = Vits(config)\n" + TAKES + "model = accelerator.unwrap_model(model)\n",
    "an argument elsewhere": "def log(model):\n    model(1)\n\n\nmodel = Vits(config)\n" + TAKES,
    "refused in another dtype": HALF + "if model.dtype != torch.float32:\n    raise ValueError(model.dtype)\n" + TAKES,
    "refused, unwrapped": HALF + "if unwrap_model(model).dtype != torch.float32:\n    raise ValueError\n" + TAKES,
    "cast by a function of a library": HALF + "cast_training_params([model], dtype=torch.float32)\n" + TAKES,
    "cast where the precision needs it": HALF
    + 'if args.mixed_precision == "fp16":\n    models = [model]\n    cast_training_params(models)\n'
    + TAKES,
    "cast in a list that grows": HALF + "models = []\nmodels.append(model)\nupcast_trainable(models)\n" + TAKES,
    "prepared for quantised training": HALF + "model = prepare_model_for_kbit_training(model)\n" + TAKES,
    "adapters on a prepared model": HALF
    + "model = prepare_model_for_kbit_training(model)\nmodel = get_peft_model(model, lora)\n"
    + TAKES,
    "cast by its own loop in a branch": HALF
    + 'if args.mixed_precision == "fp16":\n    for p in model.parameters():\n        p.data = p.data.float()\n'
    + TAKES,
    "cast in both branches": HALF + "if args.lora:\n    model = get_peft_model(model, lora)\n"
    "    for p in filter(lambda p: p.requires_grad, model.parameters()):\n        p.data = p.data.to(torch.float32)\n"
    "    model.print_trainable_parameters()\nelse:\n    model = model.float()\n" + TAKES,
    "cast in every branch of a chain": HALF
    + "if args.lora:\n    for name, p in model.named_parameters():\n        if p.requires_grad:\n"
    "            p.data = p.data.float()\nelif args.full:\n    model = model.to(torch.float32)\n"
    "else:\n    cast_training_params(model)\n" + TAKES,
    "a trainer that only saves": "from transformers import Trainer\n\n"
    + HALF
    + "trainer = Trainer(model=model, args=args)\nmerge(model)\ntrainer.save_state()\n"
    + "safe_save_model(trainer=trainer, output_dir=args.output_dir)\n",
    "a trainer of a function that only saves": "from speech.trainers import OwnTrainer\n\n\n"
    "def keep(trainer):\n    trainer.model.cpu()\n    trainer._save('out')\n\n\ndef main():\n"
    + "".join(f"    {line}\n" for line in HALF.splitlines())
    + "    trainer = OwnTrainer(model=model)\n    trainer.save_model('out')\n",
}
CAST = {
    "cast for an evaluation, then trained": "model = Vits(config)\n"
    + TAKES
    + LOOP
    + "model.half()\nmodel.eval()\n"
    + LOOP,
    "cast before the training": "model = Vits(config)\nmodel.half()\nmodel.eval()\n" + TAKES + LOOP,
    "an import that transformers 5 has": "from transformers.utils import logging\n\n" + OLD_LOAD + TAKES,
    "a trainer that trains and saves": "from transformers import Trainer\n\n"
    + HALF
    + "trainer = Trainer(model=model, args=args)\ntrainer.train()\ntrainer.save_model('out')\n",
    "a trainer that a function gets": "from transformers import Trainer\n\n"
    + HALF
    + "trainer = Trainer(model=model, args=args)\nrun(trainer)\ntrainer.save_model('out')\n",
    "cast in one branch only": HALF
    + "if args.lora:\n    for p in model.parameters():\n        p.data = p.data.float()\nelse:\n    model.train()\n"
    + TAKES,
    "cast in both branches, then half again in one": HALF
    + "if args.lora:\n    model = model.float()\n    model = get_peft_model(model.half(), lora)\n"
    "else:\n    model = model.float()\n" + TAKES,
    "an argument that is a half model": HALF.replace("model =", "net =")
    + "def train(model):\n    "
    + TAKES
    + "\n\ntrain(net)\n",
    "a part of a half model": HALF.replace("model =", "net =") + "model = net.encoder\n" + TAKES,
    "built with a dtype as an argument": "from speech.build import load\n\nmodel = load(name, torch.float16)\n" + TAKES,
    "built with a chosen dtype": "from speech.build import load\n\nmodel = load(name, dtype)\n" + TAKES,
    "one of several half results": "def load():\n    net = Vits()\n    net.half()\n    return net, 1\n\n\n"
    "model, size = load()\n" + TAKES,
    "loaded in half": HALF + TAKES,
    "adapters on a half model": HALF + "model = get_peft_model(model, lora)\n" + TAKES,
    "half again after it was prepared": HALF
    + "model = prepare_model_for_kbit_training(model)\nmodel.half()\nmodel = get_peft_model(model, lora)\n"
    + TAKES,
    "a language model that is loaded without a dtype": 'model = AutoModelForCausalLM.from_pretrained("a/b")\n' + TAKES,
    "built and cast": "model = Vits(config)\nmodel.half()\n" + TAKES,
    "built with a dtype": "model = Vits(config, dtype=torch.float16)\n" + TAKES,
    "built of a half model": HALF.replace("model =", "base_model =") + "model = Vits(base_model)\n" + TAKES,
    "cast by a function of this file": "def halve(model):\n    model.to(dtype)\n\n\nmodel = Vits(c)\nhalve(model)\n"
    + TAKES,
    "built and cast by a function of the file": "def get_model(p):\n    model = Vits(p)\n    model.half()\n"
    "    return model\n"
    "\n\nmodel = get_model(args)\n" + TAKES,
    "loaded by a function of the file": "def get_model(p):\n    return load_model(p)\n\n\nmodel = get_model(args)\n"
    + TAKES,
    "built of a part that is loaded": "def get_model(p):\n    encoder = load_model(p)\n"
    "    return Vits(encoder=encoder)\n"
    "\n\nmodel = get_model(args)\n" + TAKES,
    "cast under another flag": HALF
    + "if args.fast:\n    for p in model.parameters():\n        p.data = p.data.float()\n"
    + TAKES,
    "another model is cast": HALF + "cast_training_params([other])\n" + TAKES,
    "another dtype is refused": HALF + "if model.dtype != torch.float16:\n    raise ValueError\n" + TAKES,
    "another dtype is only reported": HALF + "if model.dtype != torch.float32:\n    print(model.dtype)\n" + TAKES,
    "a class of this file that loads half": "class Net(torch.nn.Module):\n    def __init__(self):\n"
    '        self.llm = AutoModel.from_pretrained("a/b", torch_dtype=torch.float16)\n\n\nmodel = Net()\n' + TAKES,
}


@pytest.mark.parametrize("code", STAYS.values(), ids=STAYS.keys())
def test_a_float32_model_gets_no_cast(code: str) -> None:
    assert planned(code) == HEAD + code


@pytest.mark.parametrize("code", CAST.values(), ids=CAST.keys())
def test_a_model_that_may_be_half_is_still_cast(code: str) -> None:
    assert "parameter.data.float()" in planned(code, OLD_PEFT)


SAVES = """if args.save_dtype == "fp16":
    dtype = torch.float16
model.to(dtype)
model.save_pretrained("out")
"""
LEARN = "def learn(model, batch):\n    model(batch).backward()\n"


@pytest.mark.parametrize(
    ("after", "casts"),
    [
        (SAVES, 1),
        ("model = model.to(torch.float16)\nstate = model.state_dict()\ntorch.save(state, 'out')\n", 1),
        ("if not args.train_encoder:\n    model.half()\ntrain(model)\n", 1),
        ("model.half()\nfor batch in data:\n    model(batch).backward()\n", 2),
        ("model.half()\nfor batch in data:\n    learn(model, batch)\nmodel.save_pretrained('out')\n" + LEARN, 2),
        ("model.half()\ntrain_one_epoch(model)\nmodel.save_pretrained('out')\n", 2),
        ("if args.half:\n    model.half()\nfit(model)\nmodel.save_pretrained('out')\n", 2),
    ],
)
def test_a_cast_after_the_training_is_not_undone(after: str, casts: int) -> None:
    assert planned(HALF + TAKES + after).count("parameter.data = ") == casts


def planned(code: str, packages: dict[str, str] | None = None) -> str:
    outcome = plan_file("train.py", (HEAD + code).encode(), [trainable_fp32], Target(TITAN_RTX, packages or {}))
    return outcome.change.after.decode() if outcome.change else HEAD + code


PREPARED = """from peft import PeftModel

model = AutoModel.from_pretrained("a/b", load_in_8bit=args.use_8bit{more})
model = prepare_model_for_kbit_training(model)
if args.resume:
    model = PeftModel.from_pretrained(model, args.resume, is_trainable=True{options})
else:
    model = get_peft_model(model, config{options})
"""


@pytest.mark.parametrize(
    ("more", "options", "after", "casts"),
    [
        ("", "", "", 0),
        (", torch_dtype=torch.float16", "", "", 0),
        ("", ", autocast_adapter_dtype=False", "", 1),
        ("", ", **options", "", 1),
        ("", "", "model.half()\n", 1),
    ],
)
def test_adapters_of_a_prepared_model_are_float32_already(more: str, options: str, after: str, casts: int) -> None:
    code = PREPARED.format(more=more, options=options) + after + TAKES
    assert planned(code, OLD_PEFT).count("parameter.data = ") == casts


@pytest.mark.parametrize(
    ("test", "casts"), [("USE_8bit is True", 0), ("load_in_4bit", 0), ("args.quantize", 0), ("int8", 0), ("resume", 1)]
)
def test_a_model_that_is_prepared_where_it_is_quantised_is_float32_already(test: str, casts: int) -> None:
    line = "model = prepare_model_for_kbit_training(model)"
    code = PREPARED.format(more="", options="").replace(line, f"if {test}:\n    {line}")
    assert planned(code + TAKES, OLD_PEFT).count("parameter.data = ") == casts


def test_a_model_that_is_not_prepared_is_cast_after_its_adapter_is_loaded() -> None:
    code = PREPARED.format(more="", options="").replace("prepare_model_for_kbit_training(model)", "model.half()")
    assert planned(code + TAKES, OLD_PEFT).count("parameter.data = ") == 1


OLD_LIBRARY = """from transformers import AutoModelForCausalLM, Seq2SeqTrainingArguments, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("a/b"{dtype})
args = {arguments}("out", fp16=True{option})
trainer = Trainer(model=model, args=args{given})
"""


@pytest.mark.parametrize(
    ("parts", "version", "casts"),
    [
        ({"option": ", overwrite_output_dir=True"}, "", 0),
        ({"option": ", no_cuda=False", "arguments": "Seq2SeqTrainingArguments"}, "", 0),
        ({"given": ", tokenizer=tokenizer"}, "", 0),
        ({}, "", 1),
        ({"option": ", logging_dir='logs'"}, "", 1),
        ({"option": ", overwrite_output_dir=True", "arguments": "own.TrainingArguments"}, "", 1),
        ({"option": ", overwrite_output_dir=True", "dtype": ", torch_dtype=torch.float16"}, "", 1),
        ({"option": ", overwrite_output_dir=True"}, "5.0", 1),
        ({}, "4.57", 0),
    ],
)
def test_a_load_without_a_dtype_is_float32_in_a_file_that_transformers_5_rejects(
    parts: dict[str, str], version: str, casts: int
) -> None:
    blank = {"dtype": "", "arguments": "TrainingArguments", "option": "", "given": ""}
    code = "import torch\n" + OLD_LIBRARY.format(**{**blank, **parts})
    target = Target(TITAN_RTX, {"transformers": version} if version else {})
    outcome = plan_file("train.py", code.encode(), [trainable_fp32], target)
    assert (outcome.change.after.decode() if outcome.change else "").count("parameter.data = ") == casts
