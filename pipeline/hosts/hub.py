"""Upload an adapter to a repository of the model hub, with huggingface_hub and the user's own login."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.messages.hints import install_command
from remote.errors import BadUsage, CannotConnect

LIBRARY = "huggingface_hub"


def hub_library() -> Any:
    """Import huggingface_hub on demand, because the import is slow. Raises BadUsage if it is not installed."""
    try:
        return importlib.import_module(LIBRARY)
    except ImportError:
        message = f"uploading needs {LIBRARY}, which is not installed"
        hint = install_command(LIBRARY, sys.prefix, sys.executable, shutil.which("uv"))
        raise BadUsage(message, where="--repo", hint=hint) from None


def upload_files(repo: str, files: Mapping[str, bytes | Path], *, private: bool, message: str) -> str:
    """Create the model repository if it does not exist, add the files in one commit, and return the commit's URL.

    A file is given by its content, or by a path, which is not read into memory. The token comes from `HF_TOKEN` or from
    the library's own login. Raises BadUsage if the hub refuses the name or the login, CannotConnect if the hub is
    unreachable.
    """
    library = hub_library()
    operations = [library.CommitOperationAdd(name, data) for name, data in files.items()]
    interface = library.HfApi()
    try:
        interface.create_repo(repo, private=private, exist_ok=True)
        commit = interface.create_commit(repo, operations, commit_message=message)
    except library.errors.HFValidationError as error:
        raise BadUsage(f"{error}", where="--repo", hint="--repo me/name") from None
    except library.errors.HfHubHTTPError as error:
        raise BadUsage(f"the hub refused the upload: {error}", where=repo, hint="hf auth login") from None
    except (OSError, library.errors.HTTPError) as error:
        raise CannotConnect(f"the hub cannot be reached: {error}", where=repo, hint="HF_ENDPOINT=...") from None
    return str(commit.commit_url)
