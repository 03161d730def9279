"""The peers: how they are installed, and a small driver for each, run by the interpreter of the peer."""
