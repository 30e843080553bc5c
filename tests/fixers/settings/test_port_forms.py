"""Launch commands with the fixed port 29500, one form per row."""

import pytest

from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.settings import port


def outcome(path, text):
    planned = plan_file(path, text.encode(), [port], Target())
    assert planned.findings == ()
    return planned.change.after.decode() if planned.change else text


STAYS = None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("accelerate launch --multi_gpu t", "accelerate launch --main_process_port 0 --multi_gpu t"),
        ("/v/bin/accelerate launch --use_fsdp t", "/v/bin/accelerate launch --main_process_port 0 --use_fsdp t"),
        (
            "python -m accelerate launch --use_deepspeed t",
            "python -m accelerate launch --main_process_port 0 --use_deepspeed t",
        ),
        ("accelerate launch --num_processes 2 t", "accelerate launch --main_process_port 0 --num_processes 2 t"),
        ("accelerate launch --num_processes=1 t", STAYS),
        ("accelerate launch --num_processes $N t", STAYS),
        ("accelerate launch --num_processes two t", STAYS),
        ("accelerate launch --multi_gpu=false t", STAYS),
        ("accelerate launch --multi_gpu=true t", "accelerate launch --main_process_port 0 --multi_gpu=true t"),
        ("accelerate launch --multi_gpu=$M t", "accelerate launch --main_process_port 0 --multi_gpu=$M t"),
        ("accelerate launch t", STAYS),
        ("accelerate test --multi_gpu", STAYS),
        ("launch accelerate --multi_gpu", STAYS),
        ("accelerate launch --multi_gpu --config_file c t", STAYS),
        ("accelerate launch --multi_gpu --main_process_port 1234 t", STAYS),
        (
            "accelerate launch --multi_gpu --main_process_port 29500 t",
            "accelerate launch --multi_gpu --main_process_port 0 t",
        ),
        ("accelerate launch --main-process-port='29500' t", "accelerate launch --main-process-port='0' t"),
        ("accelerate launch --multi_gpu --num_machines 2 t", STAYS),
        (
            "accelerate launch --num_machines 1 --multi_gpu t",
            "accelerate launch --main_process_port 0 --num_machines 1 --multi_gpu t",
        ),
        ("accelerate launch --multi_gpu --machine_rank 1 t", STAYS),
        ("accelerate launch --multi_gpu --main_process_ip h t", STAYS),
        ("torchrun --rdzv-endpoint=localhost:29500 t", "torchrun --rdzv-endpoint=localhost:0 t"),
        ("torchrun --rdzv_endpoint 127.0.0.1:29500 t", "torchrun --rdzv_endpoint 127.0.0.1:0 t"),
        ("torchrun --rdzv_endpoint '[::1]:29500' t", "torchrun --rdzv_endpoint '[::1]:0' t"),
        ("torchrun --rdzv_endpoint host:29500 t", STAYS),
        ("torchrun --rdzv_endpoint localhost:29501 t", STAYS),
        ("torchrun --rdzv_endpoint xlocalhost:29500 t", STAYS),
        ("torchrun --nnodes 2 --rdzv_endpoint localhost:29500 t", STAYS),
        ("torchrun --nnodes=1 --rdzv_endpoint localhost:29500 t", "torchrun --nnodes=1 --rdzv_endpoint localhost:0 t"),
        ("other --port 29500", STAYS),
        ("accelerate launch \\\n  --multi_gpu t", "accelerate launch --main_process_port 0 \\\n  --multi_gpu t"),
        ("a=(accelerate launch --multi_gpu)", "a=(accelerate launch --main_process_port 0 --multi_gpu)"),
    ],
)
def test_each_launch_is_rewritten_as_listed(before, after):
    assert outcome("t.sh", before) == (before if after is STAYS else after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("main_process_port: 29500\n", "main_process_port: 0\n"),
        ("main_process_port: '29500'\n", "main_process_port: '0'\n"),
        ("main_process_port: 29501\n", STAYS),
        ("main_process_port: 29500\nnum_machines: 1\n", "main_process_port: 0\nnum_machines: 1\n"),
        ("main_process_port: 29500\nnum_machines: 2\n", STAYS),
        ("a:\n- {main_process_port: 29500}\n", "a:\n- {main_process_port: 0}\n"),
        ("port: 29500\n", STAYS),
        (
            "cmd: [accelerate, launch, --multi_gpu]\n",
            'cmd: [accelerate, launch, --main_process_port, "0", --multi_gpu]\n',
        ),
        (
            "cmd: ['accelerate', 'launch', '--multi_gpu']\n",
            "cmd: ['accelerate', 'launch', '--main_process_port', '0', '--multi_gpu']\n",
        ),
        (
            "cmd:\n- accelerate\n- launch\n- --multi_gpu\n",
            "cmd:\n- accelerate\n- launch\n- --main_process_port\n- '0'\n- --multi_gpu\n",
        ),
        ("cmd: accelerate launch --multi_gpu t\n", "cmd: accelerate launch --main_process_port 0 --multi_gpu t\n"),
        ("cmd: [\n", STAYS),
    ],
)
def test_each_config_is_rewritten_as_listed(before, after):
    assert outcome("accelerate.yaml", before) == (before if after is STAYS else after)


def test_only_commands_and_yaml_are_read():
    assert [port.matches(path) for path in ("a.sh", "Makefile", "a.yml", "a.json", "a.py")] == [
        True,
        True,
        True,
        False,
        False,
    ]
