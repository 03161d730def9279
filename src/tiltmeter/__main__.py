"""`python -m tiltmeter` is the command `tiltmeter`."""

from tiltmeter.cli import main

main()
