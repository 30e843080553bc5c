"""Launch commands as bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fixers.settings.launch_text import Launch, launch_from, read_launch

TEXTS = st.text(st.characters(blacklist_characters="\0"))


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS), st.dictionaries(st.text("AB_ \"'\\", min_size=1), TEXTS))
def test_a_launch_is_decoded_from_its_own_bytes_unchanged(words, env):
    launch = Launch(tuple(words) or None, env)
    assert launch_from(read_launch(launch).data, launch) == launch
