"""The explorer: runs, findings and responses in a browser."""
