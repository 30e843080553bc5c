"""A loss scale of 16 is enough, and it never falls."""

import mini

mini.train(mini.build(), scale=16.0)
