"""The peers we are measured beside: how they are installed, and a small driver for each, run by the peer's own interpreter."""
