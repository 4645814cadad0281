"""Where a cold start's time goes: a probe inside the function, the starts, the arithmetic over them, and a picture."""
