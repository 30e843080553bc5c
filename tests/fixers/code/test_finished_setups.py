"""A model that an engine or another trainer optimizes already, or that a test runs in half, is not cast to float32."""

import pytest

from fixers.code import trainable_fp32
from tests.fixers.code.training_code import outcome

LOAD = "m = AutoModel.from_pretrained('a/b', torch_dtype=torch.float16)\n"
ENGINE = "m, optim, schedule = engine.prepare((m, config))\n"
OWN = "from speech.trainer import SpeechTrainer\n"
SELF_TEST = """def {name}():
    {kind}
    x = torch.randn(2, 2, {x})
    m = Net()
    m.to({m})
    o = SGD(m.parameters(), lr=0.0)
    m(x).sum().backward()
"""
OPTIONS = "options = dict(device='cuda', dtype=torch.float16)"


@pytest.mark.parametrize(
    "code",
    [
        OWN + LOAD + ENGINE + "t = SpeechTrainer(model=m, optim=optim)\n",
        OWN + LOAD + ENGINE + "t = SpeechTrainer(model=m, data=data)\n",
        OWN + LOAD + "m, optimizer = engine.initialize(config=config)\nt = SpeechTrainer(model=m)\n",
        OWN + LOAD + "t = SpeechTrainer(model=m, optimizer=make(m), scaler=GradScaler())\n",
        SELF_TEST.format(name="test_shapes", kind="scaler = None", x="dtype=torch.float16", m="torch.float16"),
        SELF_TEST.format(name="check", kind=OPTIONS, x="**options", m="**options"),
    ],
)
def test_a_finished_setup_is_left_alone(code):
    assert outcome(trainable_fp32, code) == (code, [])


@pytest.mark.parametrize(
    "code",
    [
        LOAD + "o = AdamW(m.parameters())\nt = Trainer(model=m, optimizers=(o, None))\n",
        LOAD + "m, o = build(m)\nt = Trainer(model=m, optimizers=(o, None))\n",
        OWN + LOAD + "t = SpeechTrainer(model=m, optim='adamw_torch', fp16=True)\n",
        OWN
        + LOAD
        + "o = AdamW(m.parameters())\nm, o = accelerator.prepare(m, o)\nt = SpeechTrainer(model=m, optim=o)\n",
        SELF_TEST.format(name="check", kind=OPTIONS, x="device='cuda'", m="**options"),
    ],
)
def test_a_model_whose_optimizer_is_still_to_come_is_cast(code):
    after, findings = outcome(trainable_fp32, code)
    assert after.count(".data.float()") == 1
    assert findings == []
