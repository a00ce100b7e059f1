"""Rows: SQLite or PostgreSQL, through SQLAlchemy."""
