"""A saved model over HTTP: `multidomain serve`. Needs the extra ``serve``; nothing here trains."""
