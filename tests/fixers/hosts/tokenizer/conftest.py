"""A real tokenizer, a hub on loopback that serves it, and a host."""

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from remote.link.local import local_host
from tests.fixers.hosts.tokenizer.model_site import REPO
from tests.lab.hub import Hub, Repository, serve
from tests.lab.payload import install_payload


@pytest.fixture(scope="session")
def whole():
    """A real byte-level BPE tokenizer.json of a little over 40 kB, so that byte 32,768 is inside it."""
    words = [f"phone{i} mispronounced{i * 7} café{i} {chr(0x4E00 + i)}" for i in range(900)]
    made = Tokenizer(BPE())
    made.pre_tokenizer = ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(vocab_size=2500, initial_alphabet=ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator(words, trainer)
    data = made.to_str().encode()
    assert len(data) > 40_000
    return data


@pytest.fixture
def hub(whole):
    config = b'{"model_max_length": 4096}\n'
    repository = Repository({"tokenizer.json": whole, "tokenizer_config.json": config}, frozenset({"tokenizer.json"}))
    with serve(Hub({REPO: repository})) as served:
        yield served


@pytest.fixture
def host(tmp_path):
    agent = local_host(str(install_payload(tmp_path / "host")))
    yield agent
    agent.close()
