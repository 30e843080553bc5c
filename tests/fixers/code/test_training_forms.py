"""Losses, devices, scalers and labels in training code, one form to a row."""

import pytest

from fixers.code import device_map, label_padding, local_rank, loss_fp32, scaler_gate, trainer_arguments
from tests.fixers.code.training_code import STAYS, outcome


@pytest.mark.parametrize(
    ("fixer", "before", "after"),
    [
        (loss_fp32, "F.mse_loss(a, b)", "F.mse_loss(a.float(), b.float())"),
        (loss_fp32, "F.mse_loss(a, target=b)", "F.mse_loss(a.float(), target=b.float())"),
        (loss_fp32, "F.mse_loss(input=a + 1, target=b[0])", "F.mse_loss(input=(a + 1).float(), target=b[0].float())"),
        (loss_fp32, "F.cross_entropy(a, b)", "F.cross_entropy(a.float(), b)"),
        (loss_fp32, "F.mse_loss(a)", "F.mse_loss(a.float())"),
        (loss_fp32, "F.mse_loss(*a)", STAYS),
        (loss_fp32, "F.mse_loss(0.5, a.float())", STAYS),
        (loss_fp32, "F.mse_loss(a.to(torch.float32), b.to(dtype=torch.float))", STAYS),
        (loss_fp32, "F.mse_loss(a.float().view(1), b.view(1))", "F.mse_loss(a.float().view(1), b.view(1).float())"),
        (loss_fp32, "F.nll_loss(F.log_softmax(a, -1), b)", "F.nll_loss(F.log_softmax(a.float(), -1), b)"),
        (loss_fp32, "F.nll_loss(a.log_softmax(-1), b)", "F.nll_loss(a.float().log_softmax(-1), b)"),
        (loss_fp32, "F.kl_div(torch.softmax(a), b)", "F.kl_div(torch.softmax(a.float()), b.float())"),
        (loss_fp32, "a = b.float()\nF.l1_loss(a, a)", STAYS),
        (
            loss_fp32,
            "a = b.float()\na = c\nF.cross_entropy(a, d)",
            "a = b.float()\na = c\nF.cross_entropy(a.float(), d)",
        ),
        (
            loss_fp32,
            "F.cross_entropy(a, d)\na = b.float()",
            "F.cross_entropy(a.float(), d)\na = b.float()",
        ),
        (loss_fp32, "l = nn.MSELoss()\nl(a, b)", "l = nn.MSELoss()\nl(a.float(), b.float())"),
        (loss_fp32, "l = nn.CrossEntropyLoss()\nl(a, b)", "l = nn.CrossEntropyLoss()\nl(a.float(), b)"),
        (
            loss_fp32,
            "l = nn.MSELoss()\nl = nn.NLLLoss()\nl(a, b)",
            "l = nn.MSELoss()\nl = nn.NLLLoss()\nl(a.float(), b)",
        ),
        (loss_fp32, "nn.MSELoss()(a, b)", "nn.MSELoss()(a.float(), b.float())"),
        (loss_fp32, "l = nn.L1Loss().to(d)\nl(a, b)", "l = nn.L1Loss().to(d)\nl(a.float(), b.float())"),
        (loss_fp32, "l = nn.L1Loss().to(torch.float16)\nl(a, b)", STAYS),
        (loss_fp32, "F.cross_entropy(a, b, w.half())", "F.cross_entropy(a.float(), b, w.half().float())"),
        (
            loss_fp32,
            "F.cross_entropy(a, b, weight=w)",
            "F.cross_entropy(a.float(), b, weight=w if w is None else w.float())",
        ),
        (loss_fp32, "F.cross_entropy(a, b, weight=None)", "F.cross_entropy(a.float(), b, weight=None)"),
        (loss_fp32, "F.cross_entropy(a.float(), b, weight=w)", STAYS),
        (
            loss_fp32,
            "F.nll_loss(a, b, w.half() if x else None)",
            "F.nll_loss(a.float(), b, w.half().float() if x else None)",
        ),
        (
            loss_fp32,
            "w = torch.ones(3)\nl = nn.CrossEntropyLoss(w)\nl(a, b)\nl(c, b)",
            "w = torch.ones(3)\nl = nn.CrossEntropyLoss(w.float())\nl(a.float(), b)\nl(c.float(), b)",
        ),
        (
            loss_fp32,
            "l = nn.BCEWithLogitsLoss(pos_weight=f(x))\nl(a, b)",
            "l = nn.BCEWithLogitsLoss(pos_weight=f(x).float())\nl(a.float(), b.float())",
        ),
        (loss_fp32, "with autocast():\n    F.cross_entropy(a, b, w)", STAYS),
        (loss_fp32, "l = MyLoss()\nl(a, b)", STAYS),
        (loss_fp32, "with autocast():\n    F.mse_loss(a, b)", STAYS),
        (loss_fp32, "with a, torch.autocast('cuda'):\n    F.mse_loss(a, b)", STAYS),
        (
            loss_fp32,
            "with autocast():\n    F.huber_loss(a, b)",
            "with autocast():\n    F.huber_loss(a.float(), b.float())",
        ),
        (loss_fp32, "@torch.autocast('cuda')\ndef f():\n    F.mse_loss(a, b)", STAYS),
        (
            loss_fp32,
            "with autocast():\n    def f():\n        F.mse_loss(a, b)",
            "with autocast():\n    def f():\n        F.mse_loss(a.float(), b.float())",
        ),
        (
            local_rank,
            "torch.cuda.set_device(int(os.environ['RANK']))",
            "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        ),
        (local_rank, "m.to(os.getenv('RANK'))", "m.to(os.getenv('LOCAL_RANK'))"),
        (local_rank, "m.cuda(int(os.environ.get('RANK', 0)))", "m.cuda(int(os.environ.get('LOCAL_RANK', 0)))"),
        (local_rank, "torch.device(dist.get_rank())", 'torch.device(int(os.environ["LOCAL_RANK"]))'),
        (local_rank, "device(dist.get_rank())", STAYS),
        (local_rank, "f(device_ids=[dist.get_rank()])", 'f(device_ids=[int(os.environ["LOCAL_RANK"])])'),
        (local_rank, "f(device_map={'': dist.get_rank()})", "f(device_map={'': int(os.environ[\"LOCAL_RANK\"])})"),
        (local_rank, "f(rank=dist.get_rank(), device=1)", STAYS),
        (
            local_rank,
            "r = dist.get_rank()\nd = f'cuda:{r}'",
            "r = dist.get_rank()\nd = f'cuda:{int(os.environ[\"LOCAL_RANK\"])}'",
        ),
        (local_rank, "r = dist.get_rank()\nd = f'device:{r}'", STAYS),
        (local_rank, "r = dist.get_rank()\nd = f'cuda:{r}/x'", STAYS),
        (
            local_rank,
            "r, w = dist.get_rank(), 2\nm.cuda(r)",
            'r, w = dist.get_rank(), 2\nm.cuda(int(os.environ["LOCAL_RANK"]))',
        ),
        (local_rank, "r = dist.get_rank()\nr = 0\nm.cuda(r)", STAYS),
        (local_rank, "local_rank = 1\nm.cuda(dist.get_rank())", "local_rank = 1\nm.cuda(local_rank)"),
        (
            local_rank,
            "m.cuda(dist.get_rank())\nlocal_rank = 1",
            'm.cuda(int(os.environ["LOCAL_RANK"]))\nlocal_rank = 1',
        ),
        (local_rank, "m.cuda(os.environ['WORLD_RANK'])", STAYS),
        (
            scaler_gate,
            "d = x\nautocast('cuda', d)\ns = GradScaler()",
            "d = x\nautocast('cuda', d)\ns = GradScaler(enabled=d == torch.float16)",
        ),
        (
            scaler_gate,
            "d = x\nautocast(dtype=d)\ns = GradScaler('cuda')",
            "d = x\nautocast(dtype=d)\ns = GradScaler('cuda', enabled=d == torch.float16)",
        ),
        (scaler_gate, "d = x\nautocast(dtype=d)\ns = GradScaler(enabled=y)", STAYS),
        (scaler_gate, "d = x\nautocast(dtype=d)\ns = GradScaler(**k)", STAYS),
        (scaler_gate, "d = e = x\nautocast(dtype=d)\nautocast(dtype=e)\ns = GradScaler()", STAYS),
        (scaler_gate, "autocast(dtype=torch.float16)\ns = GradScaler()", STAYS),
        (scaler_gate, "s = GradScaler()\nd = x\nautocast(dtype=d)", STAYS),
        (scaler_gate, "other(dtype=d)\nd = x\ns = GradScaler()", STAYS),
        (
            scaler_gate,
            "def f(c):\n    autocast(dtype=c.d)\n    s = GradScaler()",
            "def f(c):\n    autocast(dtype=c.d)\n    s = GradScaler(enabled=c.d == torch.float16)",
        ),
        (label_padding, "labels = pad_sequence(labels)", "labels = pad_sequence(labels, padding_value=-100)"),
        (label_padding, "y = pad_sequence(labels, True, 0)", "y = pad_sequence(labels, True, -100)"),
        (
            label_padding,
            "labels = pad_sequence(x, padding_value=t.pad_token_id)",
            "labels = pad_sequence(x, padding_value=-100)",
        ),
        (label_padding, "labels = pad_sequence(x, padding_value=7)", STAYS),
        (label_padding, "labels = pad_sequence(x, padding_value=False)", STAYS),
        (label_padding, "labels = pad_sequence(x, **k)", STAYS),
        (label_padding, "x = pad_sequence(ids)", STAYS),
        (
            label_padding,
            "d = {'labels': pad_sequence(x), 'ids': pad_sequence(y)}",
            "d = {'labels': pad_sequence(x, padding_value=-100), 'ids': pad_sequence(y)}",
        ),
        (label_padding, "f(labels=pad_sequence(x))", "f(labels=pad_sequence(x, padding_value=-100))"),
        (label_padding, "labels = F.pad(labels, (0, 1))", "labels = F.pad(labels, (0, 1), value=-100)"),
        (
            label_padding,
            "labels = F.pad(labels, (0, 1), 'constant', 0)",
            "labels = F.pad(labels, (0, 1), 'constant', -100)",
        ),
        (label_padding, "labels = torch.full((2, 3), 0)", "labels = torch.full((2, 3), -100)"),
        (
            label_padding,
            "labels = torch.full_like(x, fill_value=pad_id)",
            "labels = torch.full_like(x, fill_value=-100)",
        ),
        (label_padding, "ids = torch.full((2, 3), 0); labels = 1", STAYS),
        (label_padding, "labels = labels + [pad_id] * n", "labels = labels + [-100] * n"),
        (label_padding, "labels = n * [0] + labels", "labels = n * [-100] + labels"),
        (label_padding, "labels = labels + [0, 0] * n", STAYS),
        (label_padding, "labels = labels + [1] * n", STAYS),
        (label_padding, "x = ids + [0] * len(labels)", STAYS),
        (
            device_map,
            "Trainer()\nM.from_pretrained(device_map='auto')",
            "Trainer()\nM.from_pretrained(device_map=None)",
        ),
        (device_map, "Trainer()\nM.from_pretrained(device_map='cuda:0')", STAYS),
        (
            device_map,
            "Trainer()\nM.from_pretrained(device_map='auto', load_in_4bit=True)",
            'Trainer()\nM.from_pretrained(device_map={"": int(os.environ.get("LOCAL_RANK", "0"))}, load_in_4bit=True)',
        ),
        (device_map, "M.from_pretrained(device_map='auto')", STAYS),
    ],
)
def test_what_a_line_becomes(fixer, before, after):
    half = "x = torch.float16\n"
    wanted, told = outcome(fixer, half + before)
    assert (wanted.removeprefix(half), told) == (before if after is STAYS else after, [])


ARGUMENTS = "TrainingArguments({})"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("evaluation_strategy='no'", "eval_strategy='no'", ""),
        ("no_cuda=True", "use_cpu=True", ""),
        ("warmup_ratio=0.1", "warmup_steps=0.1", ""),
        ("per_gpu_train_batch_size=1", "per_device_train_batch_size=1", ""),
        ("group_by_length=True", 'train_sampling_strategy="group_by_length"', ""),
        ("group_by_length=x", STAYS, 'group_by_length is gone: train_sampling_strategy="group_by_length" asks for it'),
        ("no_cuda=True, use_cpu=True", STAYS, "no_cuda is now called use_cpu, which is given too; take one out"),
        ("a=1, save_safetensors=True", "a=1", ""),
        ("save_safetensors=True, a=1", "a=1", ""),
        (
            "include_inputs_for_metrics=True",
            STAYS,
            'transformers knows include_inputs_for_metrics no longer: use include_for_metrics=["inputs"]',
        ),
        ("max_seq_length=1", STAYS, ""),
        ("learning_rate=1", STAYS, ""),
    ],
)
def test_an_argument_has_the_name_that_transformers_5_knows(before, after, told):
    wanted = ARGUMENTS.format(before if after is STAYS else after)
    findings = [(1, told)] if told else []
    assert outcome(trainer_arguments, ARGUMENTS.format(before), {"transformers": "5.0"}) == (wanted, findings)


@pytest.mark.parametrize(
    ("before", "after", "package", "old", "new"),
    [
        (
            "TrainingArguments(evaluation_strategy=1)",
            "TrainingArguments(eval_strategy=1)",
            "transformers",
            "4.40",
            "4.41",
        ),
        ("TrainingArguments(no_cuda=True)", "TrainingArguments(use_cpu=True)", "transformers", "4.57", "5.0"),
        ("Trainer(tokenizer=t)", "Trainer(processing_class=t)", "transformers", "4.45.2", "4.46"),
        ("SFTConfig(max_seq_length=1)", "SFTConfig(max_length=1)", "trl", "0.15.2", "0.16.0"),
        ("t.train(model_path=p)", "t.train(resume_from_checkpoint=p)", "transformers", "4.57", "5.1"),
        (
            "AutoModel.from_pretrained(torch_dtype=x)",
            "AutoModel.from_pretrained(dtype=x)",
            "transformers",
            "4.55",
            "4.56",
        ),
        ("AutoModel.from_config(torch_dtype=x)", "AutoModel.from_config(dtype=x)", "transformers", "4.55", "4.56"),
    ],
)
def test_an_argument_is_renamed_from_the_release_on_that_knows_the_new_name(before, after, package, old, new):
    assert outcome(trainer_arguments, before, {package: old}) == (before, [])
    assert outcome(trainer_arguments, before, {package: new}) == (after, [])
