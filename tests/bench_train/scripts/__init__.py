"""Programs that the contenders run, each a file by itself."""
