"""Recognise data of a training, such as features, tokens and statistics, in files whose endings are those of weights.

Nothing is unpickled. A file counts as data only if its path or its first bytes are certainly not those of a model.
"""

from __future__ import annotations

import re
import struct
from typing import Callable, Dict, Iterable, List, Set

HEAD = 1024
"""The number of bytes at the start of a file that `is_data` needs."""
MOST_READ = 64
"""The number of files that are read. Further files are judged by the files of the same folder that were read."""
ZIP_ENTRY = struct.Struct("<4s22xHH")
"""The header of the first file in a ZIP archive: signature, length of the name, length of the extra field."""
ZIP = b"PK\x03\x04"
NEXT_ENTRY = b"PK\x07\x08"
TENSOR = re.compile(rb"^\x80.(?:\](?:q.)?\(?)?(?:ctorch\._utils\n_rebuild_tensor|cnumpy)", re.DOTALL)
"""Matches a pickle of a tensor or an array, or of a list that begins with one."""
STORED = re.compile(rb"_rebuild_|ctorch|cnumpy|storage")
"""Matches a pickle with tensors, arrays or classes of torch."""
KEY = re.compile(rb"^\x80.\}(?:q.)?\(?X(.)\x00\x00\x00", re.DOTALL)
"""Matches the start of a pickled dict. The group is the length of its first key."""
FOLDERS = re.compile(
    r"^(?:features?|feats?|cached?|tokens|tokeni[sz]ed|mels?|spec(?:trogram)?s?|preprocessed|f0)$", re.IGNORECASE
)
FILES = re.compile(
    r"^(?:train|val|valid|validation|test|tokens|stats|statistics|mean_std|cmvn|f0)\.\w+$", re.IGNORECASE
)
KEYS = re.compile(
    rb"^(?:audio|wav|waveform|feats?|features?|mels?|mel_spec|spec|f0|pitch|energy|tokens?|input_ids|input_values"
    rb"|input_features|labels|phonemes|phones|duration|durations|codes|units|speaker|text)$"
)
"""The first keys of a sample's dict, in lower case."""
OF_MODEL = re.compile(
    r"model|ckpt|checkpoint|best|last|final|epoch|step|iter|weight|state|param|adapter|lora|net"
    r"|generator|discriminator|encoder|decoder|vocoder|^[a-z]{1,4}_?\d{3,}\b",
    re.IGNORECASE,
)
"""Matches names of checkpoints and of parts of a model, such as g_00010000 of HiFi-GAN."""


def is_data_path(path: str) -> bool:
    """Return True if the folder or the name of the file is one of data, and its name is not one of a checkpoint."""
    *folders, name = path.split("/")
    if path.endswith(".safetensors") or OF_MODEL.search(name):
        return False
    return FILES.match(name) is not None or any(FOLDERS.match(each) for each in folders)


def is_data(head: bytes) -> bool:
    """Return True if `torch.save` wrote one tensor, a sample, or values without tensors.

    `head` is the start of the file. False for other formats, and for the dict of a model's state.
    """
    if not head.startswith(ZIP) or len(head) < ZIP_ENTRY.size:
        return False
    _, name, extra = ZIP_ENTRY.unpack_from(head)
    at = ZIP_ENTRY.size + name
    if not head[ZIP_ENTRY.size : at].endswith(b"/data.pkl"):
        return False
    pickled, is_whole, _ = head[at + extra :].partition(NEXT_ENTRY)
    if TENSOR.search(pickled) or (is_whole and pickled.endswith(b".") and not STORED.search(pickled)):
        return True
    key = KEY.match(pickled)
    return key is not None and KEYS.match(pickled[key.end() : key.end() + key[1][0]].lower()) is not None


def without_data(paths: Iterable[str], read: Callable[[str], bytes]) -> List[str]:
    """Return the paths of files that may be weights, in order.

    `read` returns the first HEAD bytes of a file, or b"". It is called for MOST_READ files at most, of different
    folders first. A file that is not read counts as data if all files of its folder that were read are data.
    """
    possible = [path for path in paths if not is_data_path(path)]
    folders = [*_by_folder(possible).values()]
    ranked = sorted((rank, at, path) for at, own in enumerate(folders) for rank, path in enumerate(own))
    judged = {path: is_data(read(path)) for _, _, path in ranked[:MOST_READ]}
    data: Set[str] = set()
    for own in folders:
        known = [path for path in own if path in judged]
        found = [path for path in known if judged[path]]
        data.update(own if known and found == known else found)
    return [path for path in possible if path not in data]


def _by_folder(paths: Iterable[str]) -> Dict[str, List[str]]:
    folders: Dict[str, List[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    return folders
