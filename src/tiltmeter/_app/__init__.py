"""The explorer shows runs, findings and responses in a browser. It requires the extra `app` (Streamlit)."""

from tiltmeter._app.server import serve

__all__ = ["serve"]
