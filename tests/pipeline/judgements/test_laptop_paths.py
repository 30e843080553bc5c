"""Which paths in a run's commands and files exist on the laptop only, and when that is an error."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable

import pytest

from fixers.sources.unparsable import LARGEST_TEXT
from pipeline.judgements.certain_reads import _unique, certain_reads
from pipeline.judgements.laptop_paths import Laptop, judge_laptop_paths, suspects
from pipeline.judgements.path_literals import PathReader, StartSettings
from pipeline.judgements.path_text import path_in
from pipeline.judgements.started import files_reached, paths_reached
from remote.protocol.findings import Finding

ON_LAPTOP = {"/home/me/corpus", "/home/me/proj/wavs", "/srv/sets", "/home/me/DataSets", "/home/me/models/phi"}
ON_HOST = frozenset({"/data/hf", "/scratch/me"})
LAPTOP = Laptop("/home/me/proj", "/home/me", (ON_LAPTOP | {"/data/hf"}).__contains__, data="/home/me/corpus/v2")


class Files:
    """A tree of texts."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files

    def paths(self):
        return self.files

    def read(self, path):
        return self.files[path].encode()


def judged(files: dict[str, str], *argv: str, **environment: str) -> tuple[Finding, ...]:
    uses = paths_reached(Files(files), argv or ("python", "train.py"), environment)
    return judge_laptop_paths(suspects(uses.uses, LAPTOP), LAPTOP, ON_HOST).findings


def path_findings(files: dict[str, str] | str, *argv: str, **environment: str) -> list[tuple[str, str]]:
    files = {"train.py": files} if isinstance(files, str) else files
    return [(found.severity.value, found.where) for found in judged(files, *argv, **environment)]


@pytest.mark.parametrize(
    "text",
    [
        "open('/Users/me/models/list.txt')\n",
        "ds = load_dataset('audiofolder', data_dir='/home/me/corpus')\n",
        "DATA = '/home/me/corpus'\nif __name__ == '__main__':\n    pd.read_csv(DATA)\n",
        "import torch\ndef main():\n    state = torch.load(r'C:\\data\\best.pt')\nmain()\n",
        "import os\nnames = os.listdir(os.path.join('/Users/me', 'speech', 'wavs'))\n",
        "p.add_argument('--data', default='/Users/me/speech/wavs')\nargs = p.parse_args()\nload_from_disk(args.data)\n",
        "with open('/Users/me/a/b.json') as f:\n    rows = json.load(f)\n",
        "load_from_disk(Path('~/corpus').expanduser())\n",
        "load_from_disk('../DataSets')\n",
        "try:\n    import peft\nexcept ImportError:\n    peft = None\nm = M.from_pretrained('/home/me/models/phi')\n",
        "load_from_disk(f'/home/me/corpus/{split}')\n",
    ],
)
def test_a_laptop_path_that_is_read_at_start_up_is_an_error(text: str) -> None:
    assert [severity for severity, _ in path_findings(text)] == ["error"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ROOT = '/home/me/corpus'\n", 1),
        ("def later():\n    open('/Users/me/a/b')\n", 2),
        ("if flag:\n    open('/Users/me/a/b')\n", 2),
        ("try:\n    open('/Users/me/a/b')\nexcept OSError:\n    pass\n", 2),
        ("import sys\nif len(sys.argv) > 9:\n    sys.exit()\nopen('/Users/me/a/b')\n", 4),
        ("open('/Users/me/a/log.txt', 'w')\n", 1),
        ("D = '/Users/me/a/b'\nprepare(D)\nopen(D)\n", 1),
        ("D = '/home/me/corpus'\nif not os.path.exists(D):\n    raise SystemExit(D)\nopen(D)\n", 1),
        ("p.add_argument('--data', default='/home/me/corpus')\nprepare(args.data)\nload_from_disk(args.data)\n", 1),
        ("os.system('./get.sh')\nload_from_disk('/home/me/corpus')\n", 2),
        ("sys.path.append('/home/me/proj/wavs')\n", 1),
        ("class Args:\n    data_path: str = '/Users/me/speech/wavs'\n", 2),
        ("files = glob.glob('/home/me/corpus/*.wav')\n", 1),
        ("d = os.environ.get('SPEECH', '/srv/sets')\n", 1),
    ],
)
def test_a_path_that_may_not_be_read_is_a_warning(text: str, line: int) -> None:
    assert path_findings(text) == [("warning", f"train.py:{line}")]


@pytest.mark.parametrize(
    "text",
    [
        '"""Put the data into /home/me/corpus, or:\n\nopen("/home/me/corpus")\n"""\n',
        "# open('/home/me/corpus')\n",
        "open('/data/hf')\nopen('/scratch/me')\n",
        "open('/data/speech')\nopen('/nowhere/else')\n",
        "open('/dev/null')\nopen('/tmp/a/b')\nopen('/proc/meminfo')\n",
        "re.compile(r'/home/me/.*')\nre.sub('/Users/me/a', '', x)\n",
        "P = r'^/home/me/(\\w+)'\n",
        "url = 'https://example.org/home/me/x'\nrequests.get('https://x/Users/me/y')\n",
        "@app.route('/home/me/list')\ndef page(): ...\n",
        "path = path.replace('/Users/me/data', root)\n",
        "if path == '/home/me/corpus':\n    pass\n",
        "print('looked in', '/home/me/corpus')\n",
        "raise FileNotFoundError('/home/me/corpus')\n",
        "p.add_argument('--out', help='/Users/me/a/b')\n",
        "if sys.platform == 'darwin':\n    ROOT = '/Users/me/a/b'\n",
        "if os.path.isdir('/home/me/corpus'):\n    pass\n",
        "D = '/home/me/corpus'\nD = D if os.path.isdir(D) else '/data/hf'\n",
        "open('../proj/wavs')\n",
        "x = '/'\ny = '//'\nz = '/home'\nw = 'a/b'\nv = '~'\nn = '../'\nr = 'either/or, /home/me'\n",
        "model = AutoModel.from_pretrained('org/model')\n",
    ],
)
def test_texts_that_are_no_laptop_paths_or_are_not_opened_are_not_reported(text: str) -> None:
    assert path_findings(text) == []


def test_a_path_that_the_script_may_create_is_not_an_error() -> None:
    text = "os.makedirs('/Users/me/a')\nopen('/Users/me/a/rows.json')\n"
    assert [severity for severity, _ in path_findings(text)] == ["warning", "warning"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("args = p.parse_args()\nload_from_disk(args.data)\n", {"data"}),
        ("args = p.parse_args()\nMNIST(args.data, download=True)\nload_from_disk(args.data)\n", set()),
        ("args = p.parse_args()\nif args.eval:\n    load_from_disk(args.data)\n", set()),
    ],
)
def test_an_option_counts_as_read_only_if_the_code_does_nothing_else_with_it(text: str, options: set[str]) -> None:
    assert paths_reached(Files({"train.py": text}), ("python", "train.py"), ()).options_read == options


def test_a_default_that_the_command_overrides_is_not_checked() -> None:
    script = (
        "p.add_argument('--data-dir', default='/home/me/corpus')\n"
        "d = os.environ.get('SPEECH', '/home/me/corpus')\n"
        "class Args:\n    model_path: str = '/home/me/models/phi'\n"
    )
    assert len(path_findings(script)) == 3
    given = ("python", "train.py", "--data_dir=/data/hf", "--model-path", "/data/hf")
    assert path_findings({"train.py": script}, *given, SPEECH="/data/hf") == []


def test_only_files_that_the_command_reaches_are_searched_for_paths() -> None:
    files = {
        "run.sh": "set -e\nexport HF_HOME=/home/me/corpus\n[ -d /srv/sets ] && echo yes\n"
        "accelerate launch -m src.train --config conf/exp.yaml \\\n  --manifest /home/me/corpus/a.tsv\n",
        "src/train.py": "from src.data import load\nfrom . import paths\n",
        "src/data.py": "ROOT = '/home/me/corpus'\n",
        "src/paths.py": "X = '../wavs'\nY = 'conf/more.json'\n",
        "src/__init__.py": "",
        "conf/exp.yaml": "a: 1\n# /home/me/corpus\ndata:\n  - /home/me/corpus\n  - /data/hf\n",
        "conf/more.json": '{\n "wavs": "/home/me/proj/wavs"\n}\n',
        "tests/test_data.py": "ROOT = '/home/me/corpus'\n",
        "tools/other.py": "ROOT = '/home/me/corpus'\n",
    }
    assert [where for _, where in path_findings(files, "bash", "run.sh")] == [
        "conf/exp.yaml:4",
        "conf/more.json:2",
        "run.sh:2",
        "run.sh:5",
        "src/data.py:1",
    ]
    assert path_findings(files, "bash", "-c", "cd /home/me/corpus && python tools/other.py") == [
        ("warning", "command:1"),
        ("warning", "tools/other.py:1"),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("open('/home/me/proj/wavs')\n", "relative to the project: wavs"),
        ("open('/home/me/corpus/v2/a.tsv')\n", "HALFSTEP_DATA_DIR"),
        ("M.from_pretrained('/home/me/models/phi')\n", "a hub id"),
        ("open('/srv/sets/a.tsv')\nX = '/srv/sets'\n", "data: {path: /srv/sets}"),
        ("load_from_disk('../DataSets')\n", "data: {path: /home/me/DataSets}"),
    ],
)
def test_the_hint_says_what_to_write_instead(text: str, hint: str) -> None:
    assert any(hint in found.hint for found in judged({"train.py": text})), judged({"train.py": text})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/Users/me/a b/c", "/Users/me/a b/c"),
        ("/Users/me/data/**/*.wav", "/Users/me/data"),
        ("C:\\Users\\me\\data", "C:\\Users\\me\\data"),
        ("D:/sets/speech", "D:/sets/speech"),
        ("~/data/", "~/data"),
        ("a:\\n", "a:\\n"),
        ("s3://bucket/key", ""),
        ("/a", ""),
        ("/data/x\n/data/y", ""),
        ("/x/{name}/y", ""),
    ],
)
def test_a_text_counts_as_a_path_only_if_all_of_it_is_one(text: str, path: str) -> None:
    assert path_in(text) == path


@pytest.mark.parametrize("count", [90, 190, 400, 1000])
@pytest.mark.parametrize(
    "form",
    [
        lambda count: "x = " + " + ".join(["part"] * count),
        lambda count: "x = " + " + ".join(["'/srv/sets/a'"] * count),
        lambda count: "x = a" + ".b('/srv/sets/a')" * (count // 2),
        lambda count: "x = open(a)" + ".resolve()" * (count // 2),
        lambda count: "if a == 0:\n    b\n" + "elif a == 1:\n    open('/srv/sets/a')\n" * count,
        lambda count: "x = " + "a if b else " * count + "c",
    ],
)
def test_SE_deep_code_does_not_end_the_search_for_paths(form: Callable[[int], str], count: int) -> None:
    files = {"train.py": "import deep\nopen('/srv/sets')\n", "deep.py": form(count) + "\n"}
    assert ("error", "train.py:2") in path_findings(files) or ("warning", "train.py:2") in path_findings(files)


def test_only_a_path_without_equals_parents_and_children_is_unique() -> None:
    paths = ["/a", "/a/b", "/a/c/d", "/a-b", "/a.b/c", "/a.b/d", "/e/f", "/e/f", "../g", "../g/h", "/i", "/ij"]
    assert _unique(paths) == {"/a-b", "/a.b/c", "/a.b/d", "/i", "/ij"}


@pytest.mark.parametrize("path", ["/srv/x{}", "/srv/x{0}/a/b", "../x{}"])
def test_SE_many_paths_are_not_compared_with_each_other(path: str) -> None:
    tree = ast.parse("".join(f"open('{path.format(number)}')\n" for number in range(8000)))
    reader = PathReader(tree, StartSettings(), lambda text: text)
    reader.visit(tree)
    began = time.process_time()
    assert len(certain_reads(tree, reader).literals) == 8000
    assert time.process_time() - began < 2


@pytest.mark.parametrize("form", ["{}", "x = 1 if {} else 2", "if {}:\n    x = 1"], ids=["call", "choice", "branch"])
def test_SE_nested_existence_tests_are_searched_once(form: str) -> None:
    nested = "exists(" * 90 + "[" + "a,\n" * 5000 + "'/srv/sets/a']" + ")" * 90
    tree = ast.parse(form.format(nested) + "\n")
    began = time.process_time()
    reader = PathReader(tree, StartSettings())
    assert time.process_time() - began < 1
    assert {"exists", "a", "/srv/sets/a"} <= reader.looked_for
    assert ("a" in reader.guarded) is (form != "{}")


def test_only_tests_after_which_the_script_continues_are_optional() -> None:
    lines = ["if exists(a):\n    b", "if exists(c):\n    if d:\n        raise X", "x = 1 if exists(e) else sys.exit(2)"]
    lines += ["if d:\n    exists(f)", "y = 1 if (2 if g else exists(h)) else 3"]
    reader = PathReader(ast.parse("\n".join(lines)), StartSettings())
    assert reader.guarded == {"exists", "a", "h"}


def test_the_files_of_a_command_are_found_without_a_search_for_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pipeline.judgements.started.paths_in_python")
    files = {"run.sh": "python train.py\n", "train.py": "import model\nopen('/srv/sets/a')\n", "model.py": ""}
    assert files_reached(Files(files), ("bash", "run.sh")) == files.keys()


@pytest.mark.parametrize("command", [("python", "-m", "tool"), ("accelerate", "launch", "--module", "tool", "--fast")])
def test_the_main_file_of_a_package_that_the_command_starts_is_reached(command: tuple[str, ...]) -> None:
    files = {"tool/__init__.py": "", "tool/__main__.py": "from .reading import read\n", "tool/reading.py": ""}
    assert files_reached(Files(files), command) == files.keys()


@pytest.mark.parametrize(
    ("name", "text"), [("run.sh", "cat /srv/sets\n"), ("big.ini", "[a]\nb=/srv/sets\n"), ("big.json", '["/srv/sets"]')]
)
def test_SE_a_file_of_the_command_that_is_too_large_is_not_searched(name: str, text: str) -> None:
    assert [where.partition(":")[0] for _, where in path_findings({name: text}, "bash", name)] == [name]
    assert path_findings({name: text + "\n" * LARGEST_TEXT}, "bash", name) == []


def test_SE_the_shell_scripts_of_a_command_are_searched_up_to_a_limit_in_all() -> None:
    text = "#" * (LARGEST_TEXT // 2) + "\ncat /srv/sets\n"
    files = {"a.sh": text, "b.sh": text, "c.sh": text}
    assert len(path_findings(files, "bash", *files)) == 1


@pytest.mark.parametrize("start", [("bash", "train.recipe"), ("./launch",), ("bash", "-c", ". ./train.recipe")])
def test_a_shell_script_without_the_ending_of_one_is_searched(start: tuple[str, ...]) -> None:
    files = {"train.recipe": "ls /home/me/corpus\n", "launch": "#!/bin/sh\nsource train.recipe\n"}
    assert [where for _, where in path_findings(files, *start)] == ["train.recipe:1"]
