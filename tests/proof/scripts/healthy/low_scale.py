"""The loss scale is 16 throughout, which is sufficient."""

import mini

mini.train(mini.build(), scale=16.0)
