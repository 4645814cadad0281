"""The search for what is fastest and still right: candidates in order, each against the best so far, measured side by side."""
