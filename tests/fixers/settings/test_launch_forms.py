"""Launch commands, one form per row: changed, kept, or only reported."""

import pytest

from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.settings import launch_flags
from tests.fixers.casebook import TITAN_RTX


def outcome(text, path="train.sh"):
    planned = plan_file(path, text.encode(), [launch_flags], Target(TITAN_RTX))
    after = planned.change.after.decode() if planned.change else text
    return after, [(finding.where.rpartition(":")[2], finding.message, finding.hint) for finding in planned.findings]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("t --bf16\n", "t --fp16\n"),
        ("t --bf16 --x\n", "t --fp16 --x\n"),
        ("t --bf16 x.json\n", "t --fp16 x.json\n"),
        ("t --bf16 true\n", "t --fp16 true\n"),
        ("t --bf16 True --out o\n", "t --fp16 True --out o\n"),
        ("t --bf16 auto\n", "t --fp16 true\n"),
        ("t --bf16=full\n", "t --fp16=true\n"),
        ("t --bf16 $A\n", "t --fp16 $A\n"),
        ("t --bf16 no\n",) * 2,
        ("t --bf16=True\n", "t --fp16=True\n"),
        ("t '--bf16' \"--bf16_full_eval\"\n", "t '--fp16' \"--fp16_full_eval\"\n"),
        ("t --pure-bf16\n", "t --fp16\n"),
        ("t bf16=true ++bfloat16=true\n", "t fp16=true ++float16=true\n"),
        ("t BF16=true\n",) * 2,
        ("t --bf16 True --fp16 False\n", "t --bf16 False --fp16 True\n"),
        ("t --fp16 no --bf16 yes\n", "t --fp16 yes --bf16 no\n"),
        ("t --bf16 1 --fp16 1\n", "t --bf16 0 --fp16 1\n"),
        ("t --use_bf16 on --use_fp16 off\n", "t --use_bf16 off --use_fp16 on\n"),
        ("t --no_bf16 --disable-bf16 --downcast_bf16 True\n",) * 2,
        ("t --mixed_precision bf16\n", "t --mixed_precision fp16\n"),
        ("t --mixed-precision='bf16'\n", "t --mixed-precision='fp16'\n"),
        ('t --dtype "bfloat16" --torch_dtype torch.bfloat16\n', 't --dtype "float16" --torch_dtype torch.float16\n'),
        ("t --precision bf16-mixed trainer.precision=bf16\n", "t --precision 16-mixed trainer.precision=16\n"),
        ("t --reduce_dtype bf16\n", "t --reduce_dtype fp32\n"),
        ("t --name bf16 bf16 --note=bf16\n",) * 2,
        ("t --tf32 True --tf32=no\n", "t --tf32 False --tf32=no\n"),
        ("t --attn_implementation flash_attention_2\n", "t --attn_implementation sdpa\n"),
        ("t --attn-impl=fa2\n", "t --attn-impl=sdpa\n"),
        ("t --attn_implementation eager\n",) * 2,
        ("t --use_flash_attn True\n", "t --use_flash_attn False\n"),
        ("t --flash_attn fa2\n", "t --flash_attn sdpa\n"),
        ("t --flash_attn auto --use_flash_attn false\n",) * 2,
        ("t --disable_flash_attn2 False\n", "t --disable_flash_attn2 True\n"),
        ("t --no-flash-attn off --disable_flash_attn\n", "t --no-flash-attn on --disable_flash_attn\n"),
        ("t --disable_flash_attn True\n",) * 2,
        ("t --flash_attn fa2 --packing --padding_free True\n", "t --flash_attn sdpa --packing --padding_free False\n"),
        ("t --sample-packing=1 --use_flash_attn yes\n", "t --sample-packing=0 --use_flash_attn no\n"),
        ("t --disable_flash_attn no --neat_packing true\n", "t --disable_flash_attn yes --neat_packing false\n"),
        ("t --padding_free True --attn_implementation eager\n",) * 2,
        ("echo --bf16\ngrep -- --bf16 x\n",) * 2,
        ("sudo time t --bf16\n", "sudo time t --fp16\n"),
        ("if echo --bf16; then t --bf16; fi\n", "if echo --bf16; then t --fp16; fi\n"),
        ("# t --bf16\nt '# --bf16'\n",) * 2,
        ("bash -c 't --bf16'\n", "bash -c 't --fp16'\n"),
        ('ssh h bash -lc "t --bf16"\n', 'ssh h bash -lc "t --fp16"\n'),
        ("t -c 't --bf16'\n",) * 2,
        ("bash -c 't --bf16\n\"'\n",) * 2,
        ("bash t -c\n",) * 2,
        ('A="--bf16 True --out $O"\n', 'A="--fp16 True --out $O"\n'),
        ("A=' \\\n --bf16'\n", "A=' \\\n --fp16'\n"),
        ("A='use --bf16'\n",) * 2,
        ("A=(t --bf16)\n", "A=(t --fp16)\n"),
        ("P=bf16\nt --mixed_precision $P\n", "P=fp16\nt --mixed_precision $P\n"),
        ("P='bf16'\nt --mixed_precision \"${P}\"\n", "P='fp16'\nt --mixed_precision \"${P}\"\n"),
        ("t --mixed_precision ${P:-bf16}\n", "t --mixed_precision ${P:-fp16}\n"),
        ("t --dtype ${P-bfloat16}\n", "t --dtype ${P-float16}\n"),
        ("export P=${Q:-bf16}\nt --dtype $P\n", "export P=${Q:-fp16}\nt --dtype $P\n"),
        ("P=${Q:-bf16}\nt --name $P\n",) * 2,
        ("env P=bf16 t --dtype $P\n", "env P=fp16 t --dtype $P\n"),
        ("sbatch --export=ALL,P=bf16 j\nt --dtype $P\n", "sbatch --export=ALL,P=fp16 j\nt --dtype $P\n"),
        ("docker run -e P='bf16' i\nt --dtype $P\n", "docker run -e P='fp16' i\nt --dtype $P\n"),
        ("export ACCELERATE_MIXED_PRECISION=bf16\n", "export ACCELERATE_MIXED_PRECISION=fp16\n"),
        ("P=bf16\nt --name $P\n",) * 2,
        ("t --dtype $(echo bf16) --bf16\n", "t --dtype $(echo bf16) --fp16\n"),
    ],
)
def test_each_launch_is_rewritten_as_listed(before, after):
    assert outcome(before) == (after, [])


NO_COUNTERPART = "bf16_true has no safe float16 equivalent, and the value for 16-mixed is unknown"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("\nt --use_bf16\n", "--use_bf16 selects bfloat16; its float16 counterpart is unknown", ""),
        (
            "\nt --bf16 --fp16\n",
            "both --bf16 and --fp16 are given; which one takes precedence is unknown",
            "keep --fp16",
        ),
        (
            "\nt --bf16 $A --fp16 False\n",
            "both --bf16 and --fp16 are given; which one takes precedence is unknown",
            "keep --fp16",
        ),
        (
            "\nt --tf32\n",
            "--tf32 needs a card of compute capability 8.0; Trainer rejects it on this card",
            "--tf32 False",
        ),
        ("\nt --use_flash_attn\n", "--use_flash_attn selects FlashAttention, which does not run on this card", ""),
        ("\nt --precision bf16_true\n", NO_COUNTERPART, "precision=16-mixed"),
        ("t --precision $P\nP=bf16_true\n", NO_COUNTERPART, ""),
        ("\nDTYPE=bf16\n", "DTYPE is bf16, and its purpose is unknown", "DTYPE=fp16"),
    ],
)
def test_undecidable_forms_are_reported_with_their_line_and_not_changed(text, message, hint):
    assert outcome(text) == (text, [("2", message, hint)])


HEREDOC = "a heredoc selects bfloat16; its purpose is unknown, so it was left unchanged"


@pytest.mark.parametrize(
    ("before", "after", "findings"),
    [
        ("cat > c.yaml <<E\nbf16: true\nE\n", "cat > c.yaml <<E\nfp16: true\nE\n", []),
        ('tee c.json <<E\n{"dtype": "bf16"}\nE\n', 'tee c.json <<E\n{"dtype": "fp16"}\nE\n', []),
        ("bash <<E\nt --bf16\nE\nt --bf16\n", "bash <<E\nt --fp16\nE\nt --fp16\n", []),
        ("cat > c.txt <<E\n\nbf16: true\nE\n",) * 2 + ([("3", HEREDOC, "")],),
        ("cat > c.yaml <<E\nbf16: [\nE\n",) * 2 + ([("2", HEREDOC, "")],),
        ("cat > c.txt <<E\nx\nE\necho bf16\n",) * 2 + ([],),
        ("cat > c.yaml <<E\nx: 1\nprecision: bf16_true\nE\n",) * 2 + ([("3", NO_COUNTERPART, "precision: 16-mixed")],),
    ],
)
def test_a_heredoc_is_read_by_the_type_of_the_file_that_it_writes(before, after, findings):
    assert outcome(before) == (after, findings)


def test_a_script_that_cannot_be_read_is_reported_and_a_config_of_commands_is_not():
    message = "could not be read as a script (the ' that ends this string is missing); left unchanged"
    assert outcome("\nt --bf16 'x\n") == ("\nt --bf16 'x\n", [("2", message, "check its flags by hand")])
    assert outcome("run: [t, --bf16\n", "c.yaml") == ("run: [t, --bf16\n", [])
    assert outcome("run: [t, --bf16, 'True']\n", "c.yaml") == ("run: [t, --fp16, 'True']\n", [])


@pytest.mark.parametrize(
    "command",
    [
        "USE_FLASH_ATTENTION=true text-generation-launcher --model-id m --dtype bfloat16",
        "CUDA_VISIBLE_DEVICES=1 vllm serve m --dtype bfloat16",
        "python -m vllm.entrypoints.openai.api_server --model m --dtype bfloat16",
        "nohup /opt/bin/lmdeploy serve api_server m --dtype bfloat16",
    ],
)
def test_a_command_that_starts_an_inference_server_stays(command):
    assert outcome(f"{command}\n") == (f"{command}\n", [])
    assert outcome(f"{command}\ntrain --bf16\n") == (f"{command}\ntrain --fp16\n", [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("train --serve vllm --dtype bfloat16\n", "train --serve vllm --dtype float16\n"),
        ("python -m serve.train --dtype bfloat16\n", "python -m serve.train --dtype float16\n"),
    ],
)
def test_a_command_that_only_names_an_inference_server_is_changed(before, after):
    assert outcome(before) == (after, [])
