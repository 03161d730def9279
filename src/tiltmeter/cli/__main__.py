"""Entry point of `python -m tiltmeter.cli`."""

from tiltmeter.cli import main

main()
