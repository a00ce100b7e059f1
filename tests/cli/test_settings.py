"""What the environment says, and what is refused at start."""

from pathlib import Path

import pytest

from service import resources
from service.domain.errors import ConfigInvalid
from service.settings import load_settings, unknown_variables


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in unknown_variables() + tuple(f"UNSTICK_{word}" for word in ("DATABASE_URL", "CONFIG", "RUNBOOKS")):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = load_settings()

    assert (settings.database_url.get_secret_value(), settings.config, settings.host, settings.port) == (
        "sqlite:///unstick.db",
        Path("config"),
        "127.0.0.1",
        8000,
    )
    assert settings.service_url == "http://127.0.0.1:8000"
    assert settings.token is None


def test_a_folder_named_runbooks_wins_over_the_shipped_ones(tmp_path: Path) -> None:
    shipped = load_settings().runbooks_folder
    (tmp_path / "runbooks").mkdir()

    assert (shipped, load_settings().runbooks_folder) == (resources.runbooks_folder(), Path("runbooks"))


def test_a_folder_that_is_set_is_used_even_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTICK_RUNBOOKS", "/nowhere")

    assert load_settings().runbooks_folder == Path("/nowhere")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UNSTICK_PORT", "http"),
        ("UNSTICK_PORT", "70000"),
        ("UNSTICK_URL", "unstick.example"),
        ("UNSTICK_URL", "http://127.0.0.1:port"),
        ("UNSTICK_URL", "http://[::1"),
        ("UNSTICK_URL", "http://a..b"),
        ("UNSTICK_TOKEN", "unstick_a\nb"),
        ("UNSTICK_TOKEN", "unstick_\u00fc"),
    ],
)
def test_a_wrong_value_names_its_variable_and_not_itself(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with pytest.raises(ConfigInvalid) as refused:
        load_settings()

    assert name in refused.value.reason
    assert value not in str(refused.value)
    assert refused.value.way_out


@pytest.mark.parametrize(
    ("host", "url"), [("0.0.0.0", "http://127.0.0.1:9000"), ("::", "http://[::1]:9000"), ("gpu", "http://gpu:9000")]
)
def test_commands_find_the_service_where_it_listens(monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    monkeypatch.setenv("UNSTICK_HOST", host)
    monkeypatch.setenv("UNSTICK_PORT", "9000")

    assert load_settings().service_url == url


def test_s24_secrets_do_not_show_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSTICK_TOKEN", "planted-token")
    monkeypatch.setenv("UNSTICK_DATABASE_URL", "postgresql+psycopg://u:planted-password@db/unstick")

    shown = repr(load_settings())

    assert "planted" not in shown


def test_a_mistyped_variable_is_found() -> None:
    assert unknown_variables({"UNSTICK_PROT": "1", "UNSTICK_PORT": "1", "HOME": "/"}) == ("UNSTICK_PROT",)
