"""A plain loop done right: frozen float16, trained float32, autocast, scaler, clipping after unscaling."""

import mini

mini.train(mini.build())
