"""hotfoot's runtime: opens an artifact and answers. It never imports torch or transformers."""
