"""A table of the models' names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Make the table `models`; who asked before is not known by name."""
    op.create_table(
        "models",
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("first_seen", sa.Float, nullable=False),
    )
