"""The loss scale starts too high and falls to a usable value within a few steps."""

import mini

mini.train(mini.build(), scale=2.0**24)
