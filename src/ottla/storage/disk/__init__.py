"""What the engines on a local folder share: files, locks, fork safety, the root, topics, metadata, group commit."""
