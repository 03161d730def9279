"""What the designs of all methods share: wordings of prompts, and subsampling."""
