"""Entry point of `python -m tiltmeter`, which runs the command `tiltmeter`."""

from tiltmeter._cli import main

main()
