"""Which database a command works on: it is named, because another folder has another one."""

from service.settings import Settings


def database_name(settings: Settings) -> str:
    """Return which database the settings name, without a password: the whole path of a file."""
    # Reading the URL takes SQLAlchemy, which commands that only ask the service do without.
    from service.store.session import is_sqlite, parse_url, sqlite_file

    parsed = parse_url(settings.database_url.get_secret_value())
    return str(sqlite_file(parsed)) if is_sqlite(parsed) else parsed.render_as_string(hide_password=True)


def database_is_there(settings: Settings) -> bool:
    """Whether the database is there before it is opened: a file is made where there is none."""
    from service.store.session import is_sqlite, parse_url, sqlite_file

    parsed = parse_url(settings.database_url.get_secret_value())
    return not is_sqlite(parsed) or sqlite_file(parsed).exists()
