"""One file is one task; the folder is the list. See `hotfoot.task`."""
