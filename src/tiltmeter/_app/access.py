"""What a visitor of the explorer may do: everyone who reaches it may read, and only some may write.

On this machine, a visitor may write if the page itself sent the request, under a name of this machine.
Another program of this machine may show pages of others (another port has another origin), and a proxy may
pass on visitors from elsewhere; both are recognised by the headers of the request. A proxy that names this
machine as the host, and adds none of its own headers, is not recognised if a visitor forges the origin. On
any other address, a visitor needs the token that is printed when the explorer starts.
"""

from __future__ import annotations

import secrets
from typing import Final
from urllib.parse import urlsplit

import streamlit as st

from tiltmeter._app.permissions import is_loopback
from tiltmeter._app.plain_text import lines

TOKEN = "token"  # noqa: S105 - the name of a parameter
"""Name of the token in the address of the page and in the session state."""
_FORWARDED: Final = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip")
"""Headers that proxies add."""
_READS: Final = "Here you can read all runs of the folder, with their prompts and responses."
_WRITES: Final = (
    "You can also label responses and update the results of a run with the labels; nothing can be deleted."
)
_FROM_ANYWHERE: Final = "Everyone who can reach this address can read the runs."
_FROM_THIS_MACHINE: Final = "The page can be opened on this machine only."
_READ_ONLY: Final = (
    "You can change nothing. Labelling needs the token that was printed where the explorer was started."
)
_NOT_DIRECT: Final = "You can change nothing, because the request came through a proxy or from another page."
_OPEN_DIRECTLY: Final = (
    "Responses can be labelled only where the explorer is opened directly on its machine, "
    "or with a token: see view --host."
)
_HOW_TO_LABEL: Final = (
    "Labels are stored in the run folder. "
    "To label responses, enter the token that was printed where the explorer was started."
)


def may_write(token: str) -> bool:
    """Return whether this visitor may write.

    Parameters
    ----------
    token
        The token of the server; empty if it listens on this machine only.
    """
    if not token:
        return _from_this_machine()
    token_in_address = st.query_params.get(TOKEN)
    if token_in_address is not None:
        # The address is shown to others and stored as a bookmark, so the token does not stay in it.
        st.session_state[TOKEN] = token_in_address
        del st.query_params[TOKEN]
    token_of_visitor = str(st.session_state.get(TOKEN, "")).strip()
    return secrets.compare_digest(token_of_visitor.encode(), token.encode())


def say_what_is_allowed(token: str) -> None:
    """Tell the visitor what is possible on these pages, and who else has access."""
    if may_write(token):
        access = _FROM_ANYWHERE if token else _FROM_THIS_MACHINE
        text = f"{_READS} {_WRITES} {access}"
    elif token:
        text = f"{_READS} {_READ_ONLY}"
    else:
        text = f"{_READS} {_NOT_DIRECT}"
    with st.sidebar:
        lines([text])


def ask_for_token(token: str) -> None:
    """Show that the visitor may only read, with a field for the token."""
    if not token:
        lines([_OPEN_DIRECTLY])
        return
    lines([_HOW_TO_LABEL])
    entered_token = st.text_input("Token", type="password", key="entered token")
    if entered_token:
        st.session_state[TOKEN] = entered_token
        if may_write(token):
            st.rerun()
        lines(["This is not the token."])


def _from_this_machine() -> bool:
    headers = st.context.headers
    if any(name in headers for name in _FORWARDED):
        return False
    origin = headers.get("Origin")
    if origin is None:
        return False
    try:
        source = urlsplit(origin)
    except ValueError:
        return False
    return source.netloc == headers.get("Host") and is_loopback(source.hostname or "")
