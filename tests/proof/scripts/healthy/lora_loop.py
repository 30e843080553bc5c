"""A loop of one's own: frozen float16, trained float32, autocast, scaler, clipping after unscaling."""

import mini

mini.train(mini.build())
