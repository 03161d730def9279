"""The page Streamlit runs: `streamlit run main.py -- FOLDER JOURNAL`; `tiltmeter view` does so with the right settings."""

from __future__ import annotations

import sys

from tiltmeter.app._pages import explore

if __name__ == "__main__":
    explore(*sys.argv[1:3])
