"""The constant values of the variables in a shell script."""

import pytest

from fixers.sources.shell_values import MOST_VALUES, texts_of, values_in
from fixers.sources.shell_words import scan_shell


def texts(script, unknown=()):
    """Return the texts that the last word of the script may have."""
    commands = scan_shell(script.encode())
    return texts_of(commands.commands[-1].words[-1], values_in(commands, unknown), unknown)


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("name=bank\npython train.py ./sets/$name/train", ("./sets/bank/train",)),
        ('name="bank"\npython train.py "./sets/${name}/train"', ("./sets/bank/train",)),
        ("export name='bank'\npython train.py sets/$name", ("sets/bank",)),
        ("a=x\nb=$a-y\nreadonly c=sets/$b\npython train.py $c", ("sets/x-y",)),
        ("if true; then\n  s=old\nelse\n  s=new\nfi\npython train.py sets/$s/a", ("sets/old/a", "sets/new/a")),
        ("case $1 in\n  a) s=1 ;;\n  *) exit 1 ;;\nesac\npython train.py sets/$s", ("sets/1",)),
        ("python train.py ${1:-sets/bank}", ("sets/bank",)),
        ("python train.py sets/bank", ("sets/bank",)),
        ("s=bank\npython train.py 'sets/$s'", ("sets/$s",)),
    ],
)
def test_a_word_has_a_text_for_each_value_of_its_variables(script, found):
    assert texts(script) == found


@pytest.mark.parametrize(
    "script",
    [
        "python train.py sets/$1",
        "name=$1\npython train.py sets/$name",
        "name=$(ls | head -1)\npython train.py sets/$name",
        "name=`ls`\npython train.py sets/$name",
        "name=(a b)\npython train.py sets/$name",
        "name=a\nname+=b\npython train.py sets/$name",
        "name=a\nname+=b\npython train.py sets/${name:-c}",
        "name=$1\npython train.py sets/${name:-c}",
        "for name in a b; do\n  python train.py sets/$name",
        "name=$name/x\npython train.py sets/$name",
        "python train.py sets/$(date)",
        f"name={'x' * 300}\npython train.py sets/$name",
    ],
)
def test_a_value_that_the_script_does_not_contain_gives_no_text(script):
    assert texts(script) == ()


def test_variables_of_the_environment_keep_their_unknown_values():
    assert texts("DATA=sets\npython train.py $DATA/a", ("DATA",)) == ()
    assert texts("python train.py ${DATA:-sets}/a", ("DATA",)) == ()
    assert texts("python train.py ${DATA:-sets}/a") == ("sets/a",)


def test_SE_values_that_contain_many_variables_are_not_followed():
    lines = [f"v{number}={f'$v{number + 1}' * 20}" for number in range(1000)]
    assert texts("\n".join((*lines, f"python train.py {'$v1' * 20}"))) == ()
    many = "\n".join(f"v=sets/{number}" for number in range(1000))
    assert len(texts(f"{many}\npython train.py $v/a")) == MOST_VALUES
