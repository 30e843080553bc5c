"""Losses, devices, scalers and labels in training code, one form per row."""

import pytest

from fixers.code import device_map, label_padding, local_rank, loss_fp32, scaler_gate, trainer_arguments
from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from tests.fixers.code.training_code import STAYS, outcome

FORMS = {
    loss_fp32: [
        ("F.mse_loss(a, b)", "F.mse_loss(a.float(), b.float())"),
        ("F.mse_loss(a, target=b)", "F.mse_loss(a.float(), target=b.float())"),
        ("F.mse_loss(input=a + 1, target=b[0])", "F.mse_loss(input=(a + 1).float(), target=b[0].float())"),
        ("F.cross_entropy(a, b)", "F.cross_entropy(a.float(), b)"),
        ("F.mse_loss(a)", "F.mse_loss(a.float())"),
        ("F.mse_loss(*a)", STAYS),
        ("F.mse_loss(0.5, a.float())", STAYS),
        ("F.mse_loss(a.to(torch.float32), b.to(dtype=torch.float))", STAYS),
        ("F.mse_loss(a.view(1), b.float().view(1))", "F.mse_loss(a.view(1).float(), b.float().view(1))"),
        ("F.nll_loss(F.log_softmax(a, -1), b)", "F.nll_loss(F.log_softmax(a.float(), -1), b)"),
        ("F.nll_loss(a.log_softmax(-1), b)", "F.nll_loss(a.float().log_softmax(-1), b)"),
        ("F.kl_div(torch.softmax(a), b)", "F.kl_div(torch.softmax(a.float()), b.float())"),
        ("a = b.float()\nF.l1_loss(a, a)", STAYS),
        ("a = b.float()\na = c\nF.cross_entropy(a, d)", "a = b.float()\na = c\nF.cross_entropy(a.float(), d)"),
        ("F.cross_entropy(a, d)\na = b.float()", "F.cross_entropy(a.float(), d)\na = b.float()"),
        ("l = nn.MSELoss()\nl(a, b)", "l = nn.MSELoss()\nl(a.float(), b.float())"),
        ("l = nn.CrossEntropyLoss()\nl(a, b)", "l = nn.CrossEntropyLoss()\nl(a.float(), b)"),
        ("l = nn.MSELoss()\nl = nn.NLLLoss()\nl(a, b)", "l = nn.MSELoss()\nl = nn.NLLLoss()\nl(a.float(), b)"),
        ("nn.MSELoss()(a, b)", "nn.MSELoss()(a.float(), b.float())"),
        ("l = nn.L1Loss().to(d)\nl(a, b)", "l = nn.L1Loss().to(d)\nl(a.float(), b.float())"),
        ("l = nn.L1Loss().to(torch.float16)\nl(a, b)", STAYS),
        ("F.cross_entropy(a, b, w.half())", "F.cross_entropy(a.float(), b, w.half().float())"),
        ("F.cross_entropy(a, b, weight=w)", "F.cross_entropy(a.float(), b, weight=w if w is None else w.float())"),
        ("F.cross_entropy(a, b, weight=None)", "F.cross_entropy(a.float(), b, weight=None)"),
        ("F.cross_entropy(a.float(), b, weight=w)", STAYS),
        ("F.nll_loss(a, b, w.half() if x else None)", "F.nll_loss(a.float(), b, w.half().float() if x else None)"),
        (
            "w = torch.ones(3)\nl = nn.CrossEntropyLoss(w)\nl(a, b)\nl(c, b)",
            "w = torch.ones(3)\nl = nn.CrossEntropyLoss(w.float())\nl(a.float(), b)\nl(c.float(), b)",
        ),
        (
            "l = nn.BCEWithLogitsLoss(pos_weight=f(x))\nl(a, b)",
            "l = nn.BCEWithLogitsLoss(pos_weight=f(x).float())\nl(a.float(), b.float())",
        ),
        ("with autocast():\n    F.cross_entropy(a, b, w)", STAYS),
        ("l = MyLoss()\nl(a, b)", STAYS),
        ("with autocast():\n    F.mse_loss(a, b)", STAYS),
        ("with a, torch.autocast('cuda'):\n    F.mse_loss(a, b)", STAYS),
        ("with autocast():\n    F.huber_loss(a, b)", "with autocast():\n    F.huber_loss(a.float(), b.float())"),
        ("@torch.autocast('cuda')\ndef f():\n    F.mse_loss(a, b)", STAYS),
        (
            "with autocast():\n    def f():\n        F.mse_loss(a, b)",
            "with autocast():\n    def f():\n        F.mse_loss(a.float(), b.float())",
        ),
    ],
    local_rank: [
        ("torch.cuda.set_device(int(os.environ['RANK']))", "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))"),
        ("m.to(os.getenv('RANK'))", "m.to(os.getenv('LOCAL_RANK'))"),
        ("m.cuda(int(os.environ.get('RANK', 0)))", "m.cuda(int(os.environ.get('LOCAL_RANK', 0)))"),
        ("torch.device(dist.get_rank())", 'torch.device(int(os.environ["LOCAL_RANK"]))'),
        ("device(dist.get_rank())", STAYS),
        ("f(device_ids=[dist.get_rank()])", 'f(device_ids=[int(os.environ["LOCAL_RANK"])])'),
        ("f(device_map={'': dist.get_rank()})", "f(device_map={'': int(os.environ[\"LOCAL_RANK\"])})"),
        ("f(rank=dist.get_rank(), device=1)", STAYS),
        ("r = dist.get_rank()\nd = f'cuda:{r}'", "r = dist.get_rank()\nd = f'cuda:{int(os.environ[\"LOCAL_RANK\"])}'"),
        ("r = dist.get_rank()\nd = f'device:{r}'", STAYS),
        ("r = dist.get_rank()\nd = f'cuda:{r}/x'", STAYS),
        ("r, w = dist.get_rank(), 2\nm.cuda(r)", 'r, w = dist.get_rank(), 2\nm.cuda(int(os.environ["LOCAL_RANK"]))'),
        ("r = dist.get_rank()\nr = 0\nm.cuda(r)", STAYS),
        ("local_rank = 1\nm.cuda(dist.get_rank())", "local_rank = 1\nm.cuda(local_rank)"),
        ("m.cuda(dist.get_rank())\nlocal_rank = 1", 'm.cuda(int(os.environ["LOCAL_RANK"]))\nlocal_rank = 1'),
        ("m.cuda(os.environ['WORLD_RANK'])", STAYS),
    ],
    scaler_gate: [
        (
            "d = x\nautocast('cuda', d)\ns = GradScaler()",
            "d = x\nautocast('cuda', d)\ns = GradScaler(enabled=d == torch.float16)",
        ),
        (
            "d = x\nautocast(dtype=d)\ns = GradScaler('cuda')",
            "d = x\nautocast(dtype=d)\ns = GradScaler('cuda', enabled=d == torch.float16)",
        ),
        ("d = x\nautocast(dtype=d)\ns = GradScaler(enabled=y)", STAYS),
        ("d = x\nautocast(dtype=d)\ns = GradScaler(**k)", STAYS),
        ("d = e = x\nautocast(dtype=d)\nautocast(dtype=e)\ns = GradScaler()", STAYS),
        ("autocast(dtype=torch.float16)\ns = GradScaler()", STAYS),
        ("s = GradScaler()\nd = x\nautocast(dtype=d)", STAYS),
        ("other(dtype=d)\nd = x\ns = GradScaler()", STAYS),
        (
            "def f(c):\n    autocast(dtype=c.d)\n    s = GradScaler()",
            "def f(c):\n    autocast(dtype=c.d)\n    s = GradScaler(enabled=c.d == torch.float16)",
        ),
    ],
    label_padding: [
        ("labels = pad_sequence(labels)", "labels = pad_sequence(labels, padding_value=-100)"),
        ("y = pad_sequence(labels, True, 0)", "y = pad_sequence(labels, True, -100)"),
        ("labels = pad_sequence(x, padding_value=t.pad_token_id)", "labels = pad_sequence(x, padding_value=-100)"),
        ("labels = pad_sequence(x, padding_value=7)", STAYS),
        ("labels = pad_sequence(x, padding_value=False)", STAYS),
        ("labels = pad_sequence(x, **k)", STAYS),
        ("x = pad_sequence(ids)", STAYS),
        (
            "d = {'labels': pad_sequence(x), 'ids': pad_sequence(y)}",
            "d = {'labels': pad_sequence(x, padding_value=-100), 'ids': pad_sequence(y)}",
        ),
        ("f(labels=pad_sequence(x))", "f(labels=pad_sequence(x, padding_value=-100))"),
        ("labels = F.pad(labels, (0, 1))", "labels = F.pad(labels, (0, 1), value=-100)"),
        ("labels = F.pad(labels, (0, 1), 'constant', 0)", "labels = F.pad(labels, (0, 1), 'constant', -100)"),
        ("labels = torch.full((2, 3), 0)", "labels = torch.full((2, 3), -100)"),
        ("labels = torch.full_like(x, fill_value=pad_id)", "labels = torch.full_like(x, fill_value=-100)"),
        ("ids = torch.full((2, 3), 0); labels = 1", STAYS),
        ("labels = labels + [pad_id] * n", "labels = labels + [-100] * n"),
        ("labels = n * [0] + labels", "labels = n * [-100] + labels"),
        ("labels = labels + [0, 0] * n", STAYS),
        ("labels = F.pad(multi_hot, (0, 2), 'constant', 0.0)", STAYS),
        ("labels = F.pad(labels, (0, 2), value=-0.0)", STAYS),
        (
            "c(ignore_index=-100)\nlabels = pad_sequence(x, True, 0)",
            "c(ignore_index=-100)\nlabels = pad_sequence(x, True, -100)",
        ),
        ("labels = labels + [1] * n", STAYS),
        ("x = ids + [0] * len(labels)", STAYS),
        (
            "for i in rows:\n    labels.append(ids[i])\n    a[i] = names2id[labels[i]]\nlabels = pad_sequence(labels)",
            "for i in rows:\n    labels.append(ids[i])\n    a[i] = names2id[labels[i]]\n"
            "labels = pad_sequence(labels, padding_value=-100)",
        ),
        ("keep[text_labels[i]] = on\nnew_labels.append(text_labels[i])\nlabels = F.pad(new_labels[0], (0, n))", STAYS),
        ("labels = ids == image_id\nlabels = pad_sequence(labels)", STAYS),
        ("for i in ids:\n    labels.append(torch.isin(i, texts))\nlabels = pad_sequence(labels)", STAYS),
        ("labels = torch.ones(n, dtype=torch.bool)\nlabels = F.pad(labels, (0, 1))", STAYS),
        ("labels = pad_sequence(labels)\nx = torch.where(labels.bool(), a, b)", STAYS),
        ("labels = pad_sequence(labels)\nx = x.masked_fill(labels, 0)", STAYS),
        ("labels = pad_sequence(labels)\nx = ~labels & seen", STAYS),
        (
            "labels = pad_sequence(labels)\nx = (labels != 5) & seen",
            "labels = pad_sequence(labels, padding_value=-100)\nx = (labels != 5) & seen",
        ),
        ("labels = pad_sequence(x, padding_value=-100)\nspeaker_labels = pad_sequence(y, padding_value=0)", STAYS),
        ("labels = labels + [IGNORE_INDEX] * n\ntext_labels = text_labels + [0] * n", STAYS),
        (
            "def f(x):\n    return {'labels': pad(-100)}\n\ndef g(label):\n    return F.pad(label, (0, 1))",
            "def f(x):\n    return {'labels': pad(-100)}\n\ndef g(label):\n    return F.pad(label, (0, 1), value=-100)",
        ),
        (
            "labels = [-100] * n + labels\nmore = labels + [0] * n",
            "labels = [-100] * n + labels\nmore = labels + [-100] * n",
        ),
    ],
    device_map: [
        ("Trainer()\nM.from_pretrained(device_map='auto')", "Trainer()\nM.from_pretrained(device_map=None)"),
        ("Trainer()\nM.from_pretrained(device_map='cuda:0')", STAYS),
        (
            "Trainer()\nM.from_pretrained(device_map='auto', load_in_4bit=True)",
            'Trainer()\nM.from_pretrained(device_map={"": int(os.environ.get("LOCAL_RANK", "0"))}, load_in_4bit=True)',
        ),
        ("M.from_pretrained(device_map='auto')", STAYS),
    ],
}


@pytest.mark.parametrize(
    ("fixer", "before", "after"),
    [pytest.param(fixer, *form, id=f"{fixer.name}: {form[0]}") for fixer, forms in FORMS.items() for form in forms],
)
def test_each_form_is_rewritten_as_listed(fixer, before, after):
    half = "a, b, c = m.half()(x)\n" if fixer is loss_fp32 else "x = torch.float16\n"
    wanted, findings = outcome(fixer, half + before)
    assert (wanted.removeprefix(half), findings) == (before if after is STAYS else after, [])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("labels = F.pad(multi_hot, (0, 2))", "multi_hot shows that they are not class ids"),
        ("labels = pad_sequence([s['soft_labels'] for s in x])", "soft_labels shows that they are not class ids"),
        ("labels = pad_sequence([t.float() for t in labels])", "float shows that they are not class ids"),
        ("labels = torch.full((2, 3), 0, dtype=torch.float32)", "their dtype is not an integer"),
        ("labels = F.pad(labels, (0, 2))\nF.binary_cross_entropy_with_logits(y, labels)", "has no ignore_index"),
        ("labels = pad_sequence(labels)\nloss = nn.MSELoss()(y, labels)", "MSELoss in this file has no ignore_index"),
    ],
)
def test_labels_for_a_loss_that_ignores_nothing_are_left_and_reported(code, why):
    after, [(_, message)] = outcome(label_padding, code)
    assert after == code
    assert why in message


def test_labels_of_an_unknown_loss_are_left_and_those_of_a_cross_entropy_are_not():
    code = b"from torch.nn.utils.rnn import pad_sequence\nlabels = pad_sequence(labels, True, 0)\n"
    unknown = plan_file("data.py", code, [label_padding], Target(None, {}))
    assert unknown.change is None
    assert "this file does not show" in unknown.findings[0].message
    known = plan_file("data.py", code + b"loss = F.cross_entropy(y, labels)\n", [label_padding], Target(None, {}))
    assert b"-100" in known.change.after


ARGUMENTS = "TrainingArguments({})"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("evaluation_strategy='no'", "eval_strategy='no'", ""),
        ("no_cuda=True", "use_cpu=True", ""),
        ("warmup_ratio=0.1", "warmup_steps=0.1", ""),
        ("per_gpu_train_batch_size=1", "per_device_train_batch_size=1", ""),
        ("group_by_length=True", 'train_sampling_strategy="group_by_length"', ""),
        ("group_by_length=x", STAYS, 'group_by_length was removed: use train_sampling_strategy="group_by_length"'),
        ("no_cuda=True, use_cpu=True", STAYS, "no_cuda was renamed to use_cpu, which is also given; remove one"),
        ("a=1, save_safetensors=True", "a=1", ""),
        ("save_safetensors=True, a=1", "a=1", ""),
        (
            "include_inputs_for_metrics=True",
            STAYS,
            'transformers removed include_inputs_for_metrics: use include_for_metrics=["inputs"]',
        ),
        ("max_seq_length=1", STAYS, ""),
        ("learning_rate=1", STAYS, ""),
    ],
)
def test_an_argument_has_the_name_that_transformers_5_accepts(before, after, message):
    wanted = ARGUMENTS.format(before if after is STAYS else after)
    findings = [(1, message)] if message else []
    assert outcome(trainer_arguments, ARGUMENTS.format(before), {"transformers": "5.15"}) == (wanted, findings)


@pytest.mark.parametrize(
    ("call", "earlier", "later", "package", "old", "new"),
    [
        ("TrainingArguments({}=1)", "evaluation_strategy", "eval_strategy", "transformers", "4.50.3", "4.51"),
        ("TrainingArguments({}=True)", "no_cuda", "use_cpu", "transformers", "4.57", "5.0"),
        ("TrainingArguments({}=1)", "warmup_ratio", "warmup_steps", "transformers", "5.14.1", "5.15.0"),
        ("Trainer({}=t)", "tokenizer", "processing_class", "transformers", "4.57.1", "5.0"),
        ("SFTConfig({}=1)", "max_seq_length", "max_length", "trl", "0.19.1", "0.20.0"),
        ("t.train({}=p)", "model_path", "resume_from_checkpoint", "transformers", "4.57", "5.1"),
    ],
)
def test_an_argument_is_renamed_from_the_release_that_rejects_the_old_name(call, earlier, later, package, old, new):
    assert outcome(trainer_arguments, call.format(earlier), {package: old}) == (call.format(earlier), [])
    assert outcome(trainer_arguments, call.format(earlier), {package: new}) == (call.format(later), [])
