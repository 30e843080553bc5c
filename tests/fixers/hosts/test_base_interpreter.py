"""A venv is created from base interpreters without venv or ensurepip."""

import os
import sys

import pytest

from fixers.setup import environment
from remote.errors import RemoteFault
from tests.fixers.hosts.local_wheels import host, imports, site_of
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
    hint = f"{sudo}apt-get update && {sudo}apt-get install -y {package}"
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
