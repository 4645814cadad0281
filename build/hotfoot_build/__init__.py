"""hotfoot's build stage: decides everything, proves it, and packs it."""
