"""The loss scale is below 1, as a very large loss needs it, and never falls."""

import mini

mini.train(mini.build(), scale=0.25)
