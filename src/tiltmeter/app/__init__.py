"""The explorer: runs, findings and responses in a browser. It needs the extra `app` (Streamlit)."""

from tiltmeter.app._serve import serve

__all__ = ["serve"]
