"""A venv is created from base interpreters without venv or ensurepip."""

import os
import sys
from pathlib import Path

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from tests.fixers.hosts.local_wheels import host, imports, site_of, venv
from tests.fixers.setup_rig import put
from tests.lab.package_index import installed_wheel

__all__ = ["host"]

DEBIAN = """The virtual environment was not created successfully because ensurepip is not
available.  On Debian/Ubuntu systems, you need to install the python3-venv
package using the following command.

    apt install python3.11-venv

You may need to use sudo with that command.  After installing the python3-venv
package, recreate your virtual environment.

Failing command: /w/tree/venv/bin/python3
"""


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (DEBIAN, "python3.11-venv"),
        ("/usr/bin/python3: No module named venv", "python3-venv"),
    ],
    ids=["without ensurepip", "without venv"],
)
def test_for_a_python_without_venv_the_package_to_install_is_named(host, tmp_path, words, package):
    base = tmp_path / "python3"
    base.write_text(f"#!/bin/sh\ncat <<'EOF'\n{words}\nEOF\nexit 1\n")
    base.chmod(0o755)
    (change,) = environment.plan(site_of(host, base=str(base))).changes
    args = {**change.args, "environment": {"PATH": "/usr/bin:/bin"}}
    sudo = "" if os.geteuid() == 0 else "sudo "
    hint = f"hint of the host: {sudo}apt-get update && {sudo}apt-get install -y {package}"
    with pytest.raises(RemoteFault, match="cannot create a venv") as refusal:
        host.act(change.op, args)
    assert (refusal.value.hint, refusal.value.exit_code) == (hint, 20)


NO_ENSUREPIP = f"""#!/bin/sh
case "$*" in
"-m venv --without-pip "*) exec {sys.executable} "$@" ;;
"-m venv "*) echo "ensurepip is not available."; exit 1 ;;
esac
exec {sys.executable} "$@"
"""


def test_without_ensurepip_the_pip_of_the_base_interpreter_installs_pip(host, tmp_path):
    base = tmp_path / "python3"
    base.write_text(NO_ENSUREPIP)
    base.chmod(0o755)
    installed_wheel(tmp_path, "pip")
    (change,) = environment.plan(site_of(host, base=str(base))).changes
    args = {
        **change.args,
        "environment": {"PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)},
    }
    assert host.act(change.op, args)["made"] is True
    imports(host, "torch", "speechkit")


def test_without_ensurepip_the_uv_of_the_home_folder_creates_the_venv(host, tmp_path):
    base, uv = tmp_path / "python3", tmp_path / "home" / ".local" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    base.write_text("#!/bin/sh\necho ensurepip is not available.\nexit 1\n")
    uv.write_text(f'#!/bin/sh\nfor last; do :; done\nexec {sys.executable} -m venv "$last"\n')
    for program in (base, uv):
        program.chmod(0o755)
    (change,) = environment.plan(site_of(host, base=str(base))).changes
    args = {**change.args, "environment": {"PATH": "/usr/bin:/bin", "HOME": str(uv.parents[2])}}
    assert host.act(change.op, args)["made"] is True
    imports(host, "torch", "speechkit")


def test_a_missing_base_interpreter_is_named(host):
    (change,) = environment.plan(site_of(host, base="python9.9")).changes
    with pytest.raises(RemoteFault, match=r"python9\.9: No such file") as refusal:
        host.act(change.op, change.args)
    assert refusal.value.exit_code == 20


@pytest.mark.parametrize("form", ["relative", "absolute", "link", "the laptop's folder", "of the process"])
def test_SE_a_base_interpreter_of_the_project_is_not_run(host, tmp_path, form):
    (change,) = environment.plan(site_of(host)).changes
    tree, clone = Path(venv(host)).parent, tmp_path / "clone"
    clone.mkdir()
    for folder in (tree, clone):
        (folder / "evil.sh").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (folder / "evil.sh").chmod(0o755)
    (tmp_path / "link").symlink_to(tree / "evil.sh")
    base = {
        "relative": "./evil.sh",
        "absolute": str(tree / "evil.sh"),
        "link": str(tmp_path / "link"),
        "the laptop's folder": str(clone / "evil.sh"),
        "of the process": "/proc/self/cwd/evil.sh",
    }[form]
    with pytest.raises(RemoteFault, match="is a file of the project"):
        host.act(change.op, {**change.args, "base": base, "laptop_root": str(clone)})
    assert not (tmp_path / "ran").exists() and not Path(venv(host)).exists()


def test_SE_modules_and_programs_of_the_project_do_not_replace_those_that_create_the_environment(host, tmp_path):
    tree = Path(venv(host)).parent
    for module in ("venv", "pip", "ensurepip", "torch"):
        (tree / f"{module}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(3)\n")
    (tree / "bin").mkdir()
    (tree / "bin/python3").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 3\n")
    (tree / "bin/python3").chmod(0o755)
    (change,) = environment.plan(site_of(host, base="python3")).changes
    path = f"{tree}/bin:{os.environ['PATH']}"
    assert host.act(change.op, {**change.args, "environment": {"PATH": path}})["made"] is True
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("planted", ["venv/bin/python", "venv/lib/evil.pth", "venv"])
def test_SE_an_environment_that_came_with_the_project_is_not_completed(host, tmp_path, planted):
    put(host, planted, f"#!/bin/sh\ntouch {tmp_path}/ran\n".encode())
    (change,) = environment.plan(site_of(host)).changes
    with pytest.raises(RemoteFault, match="came with the project"):
        host.act(change.op, change.args)
    assert not (tmp_path / "ran").exists()
