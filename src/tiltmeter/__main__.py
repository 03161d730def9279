"""Entry point of `python -m tiltmeter`, which runs the command `tiltmeter`."""

from tiltmeter.cli import main

main()
