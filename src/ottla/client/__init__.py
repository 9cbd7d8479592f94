"""What a program uses: the log that a URL opens, its producers and its consumers."""
