"""The loss is a sum over a million: its scale starts below 1, and never falls."""

import mini

mini.train(mini.build(), scale=0.25)
