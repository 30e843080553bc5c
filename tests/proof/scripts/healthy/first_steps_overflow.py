"""The scale starts too high and comes down within a few steps, as it should."""

import mini

mini.train(mini.build(), scale=2.0**24)
