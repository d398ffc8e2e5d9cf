"""Networks that others have trained and published, read from the files in which they came."""
