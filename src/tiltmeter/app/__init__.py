"""The explorer: runs, findings and responses in a browser. It needs the extra `app` (Streamlit)."""

from tiltmeter.app.server import serve

__all__ = ["serve"]
