"""A script that creates a file or folder which an earlier job of the run left in its code."""

import pytest

from pipeline.diagnosis.diagnose import diagnose_text

CODE = "/home/me/halfstep/projects/ast-59d971fa/runs/ast-484a6deb/code"
LOG = f"""Creating experiment directory: exp/mine
Traceback (most recent call last):
  File "{CODE}/src/run.py", line 138, in <module>
    os.makedirs("%s/models" % args.exp_dir)
  File "<frozen os>", line 225, in makedirs
FileExistsError: [Errno 17] File exists: {{path}}
"""


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("'exp/mine/models'", "exp/mine/models"),
        (f"PosixPath('{CODE}/exp')", f"{CODE}/exp"),
        ("'models/3.pt' -> 'models/best.pt'", "models/best.pt"),
    ],
)
def test_a_leftover_of_an_earlier_job_is_removed_by_a_new_run(path, named):
    (finding,) = diagnose_text(LOG.format(path=path))
    assert finding.check == "file-exists"
    assert finding.message.endswith(f": {named}")
    assert "`pipeline run --force train` starts a new run" in finding.hint
    assert finding.where.startswith("src/run.py:138 in <module>")


@pytest.mark.parametrize("path", ["'/scratch/me/models'", "'/home/me/code/exp'", "'/srv/runs/exp/mine'"])
def test_a_path_outside_the_run_s_code_is_not_the_run_s_leftover(path):
    assert [one.check for one in diagnose_text(LOG.format(path=path))] == ["unknown-error"]
