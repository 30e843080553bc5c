"""Commands in YAML and JSON, and which files contain commands or settings."""

import pytest

from fixers.sources.commands import is_dockerfile, is_makefile, read_commands, reads_commands
from fixers.sources.config_commands import commands_in_config
from fixers.sources.shells import is_shell


def commands_of(path, text):
    script = commands_in_config(path, text.encode())
    for command in script.commands:
        for word in command.words:
            assert text.encode()[word.start : word.end].decode("latin-1").split() == word.raw.split()
    return [[word.text for word in command.words] for command in script.commands]


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("run: python t.py --a 1\n", [["python", "t.py", "--a", "1"]]),
        ("jobs:\n  - cmd: 'a b'\n  - entrypoint: \"c 'd e'\"\n", [["a", "b"], ["c", "d e"]]),
        ("RUN: a b\n", [["a", "b"]]),
        ("name: a b\n", []),
        ("run: {a: b c}\n", []),
        ("command: [a, 'b c', \"d\"]\n", [["b", "c"], ["a", "b c", "d"]]),
        ("arguments: [a, b c]\n", [["a", "b c"]]),
        ("environment:\n  - A=1\n", [["A=1"]]),
        ("other: [a, b]\n", []),
        ("script:\n  - a b\n  - c\n", [["a", "b"], ["a b", "c"]]),
        ("run: |\n  a b\n  c d\n", [["a", "b"], ["c", "d"]]),
        ("run: >\n  a b\n  --c\n", [["a", "b", "--c"]]),
        ("run: a b\n  --c\n", [["a", "b", "--c"]]),
        ("run: 'a b\n  --c'\n", [["a", "b", "--c"]]),
        ("args:\n- |\n  a b\n- c\n", [["a", "b"], ["c"]]),
        ('run: "a \\"b\\" c"\n', []),
        ("run: 'a ''b'' c'\n", []),
        ('run: a "b\n', []),
        ("run: 1\n---\nrun: a\n", [["1"], ["a"]]),
        ("run: |\n  cat > f <<E\n  x\n  E\n", []),
    ],
)
def test_commands_are_found_under_keys_that_name_them(text, commands):
    assert commands_of("ci.yaml", text) == commands


def test_json_holds_commands_too():
    assert commands_of("tasks.json", '{"cmd": "a b", "args": ["c", 1, null]}') == [["a", "b"], ["c", "1", "null"]]


def test_a_heredoc_in_a_block_has_its_byte_range():
    text = "run: |\n  a\n  cat > f <<-E\n\tx\n\tE\n"
    script = commands_in_config("ci.json", b'{"run": "a b"}')
    assert script.heredocs == ()
    assert (
        commands_in_config("ci.yaml", text.replace("\t", "  ").replace("<<-E", "<<'  E'").encode()).heredocs[0].target
        == "f"
    )


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("a/run.sh", is_shell),
        ("job.SLURM", is_shell),
        ("x.sbatch", is_shell),
        ("Makefile", is_makefile),
        ("a/GNUmakefile", is_makefile),
        ("rules.mk", is_makefile),
        ("Dockerfile", is_dockerfile),
        ("a/Dockerfile.gpu", is_dockerfile),
        ("gpu.dockerfile", is_dockerfile),
        ("Containerfile", is_dockerfile),
        ("containerfile.gpu", is_dockerfile),
    ],
)
def test_files_of_commands_are_recognised_by_name(path, kind):
    assert [each(path) for each in (is_shell, is_makefile, is_dockerfile)].count(True) == 1
    assert kind(path)
    assert reads_commands(path)


@pytest.mark.parametrize("path", ["sh", "a.shx", "makefile.py", "Dockerfiles/a.txt", "mk", "my-dockerfile", "a.yaml"])
def test_other_files_are_not_read_for_commands(path):
    assert not reads_commands(path)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [("a.sh", "RUN a", ["RUN", "a"]), ("Dockerfile", "RUN a", ["a"]), ("Makefile", "t:\n\tRUN a", ["RUN", "a"])],
)
def test_each_file_is_read_in_the_language_of_its_name(path, text, words):
    (command,) = read_commands(path, text.encode()).commands
    assert [word.text for word in command.words] == words
