"""login.yaml is read strictly, and one that became wrong locks nobody out."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from service.domain.errors import ConfigInvalid
from service.domain.login import LoginConfig, OidcConfig, ProxyConfig
from service.domain.person import Role
from service.login.login_file import FileLogin, load_login

ROOT = Path(__file__).parents[2]
GOOD = """\
base_url: https://unstick.example.net/
oidc:
  name: Example SSO
  issuer: https://sso.example.net/realms/main
  client_id: unstick
  client_secret_file: secrets/oidc
  person_claim: email
  scopes: [email]
groups:
  gpu-oncall: [viewer, operator]
  gpu-leads: [approver]
help: Ask in the channel.
"""
PROXY = """\
proxy:
  header: X-Forwarded-User
  groups_header: X-Forwarded-Groups
  from: [127.0.0.1/32, "2001:db8::/64"]
  secret_file: secrets/proxy
groups:
  gpu-oncall: [operator]
"""


def test_a_file_says_who_may_do_what_and_by_whom_it_is_known(tmp_path: Path) -> None:
    file = tmp_path / "login.yaml"
    file.write_text(GOOD)

    assert load_login(file) == LoginConfig(
        "https://unstick.example.net",
        OidcConfig(
            "Example SSO",
            "https://sso.example.net/realms/main",
            "unstick",
            secret_file=f"{tmp_path}/secrets/oidc",
            person_claim="email",
            scopes=("openid", "email"),
        ),
        groups={
            "gpu-oncall": frozenset({Role.VIEWER, Role.OPERATOR}),
            "gpu-leads": frozenset({Role.APPROVER}),
        },
        help="Ask in the channel.",
    )


def test_a_file_may_name_a_proxy_instead(tmp_path: Path) -> None:
    file = tmp_path / "login.yaml"
    file.write_text(PROXY)

    assert load_login(file).proxy == ProxyConfig(
        "x-forwarded-user",
        f"{tmp_path}/secrets/proxy",
        (ip_network("127.0.0.1/32"), ip_network("2001:db8::/64")),
        groups_header="x-forwarded-groups",
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "told"),
    [
        (GOOD, "issuer: https", "issuer: http", "4: `oidc.issuer` cannot be used. It begins with http"),
        (GOOD, "net/realms", "net/?realms", "4: `oidc.issuer` has a part after `?`."),
        (GOOD, "client_id", "client", "5: `oidc.client` is not a key that is known here."),
        (GOOD, "  client_secret_file: secrets/oidc\n", "", "2: `oidc` needs the client's secret, and from one place"),
        (GOOD, "base_url: https://unstick.example.net/\n", "", "1: `base_url` is missing."),
        (GOOD, "example.net/\n", "example.net/unstick\n", "1: `base_url` has a path"),
        (GOOD, "[approver]", "[source]", "11: `groups.gpu-leads` has the role source, which no person has."),
        (GOOD, "[approver]", "[root]", "11: `groups.gpu-leads.0` is 'root'."),
        (GOOD, "  scopes: [email]", "  algorithms: [HS256]", "8: `oidc.algorithms.0` is 'HS256'"),
        (GOOD, "  scopes: [email]", "  algorithms: [none]", "8: `oidc.algorithms.0` is 'none'"),
        (PROXY, "127.0.0.1/32", "0.0.0.0/0", "4: `proxy.from.0` is everybody."),
        (PROXY, "127.0.0.1/32", "proxy.example.net", "4: `proxy.from.0` is 'proxy.example.net', which is no network."),
        (PROXY, "X-Forwarded-Groups", "X-Forwarded-User", "1: Two headers of `proxy` have one name."),
        (PROXY, "X-Forwarded-User", "Cookie", "2: `proxy.header` is 'Cookie', which means something else."),
        (PROXY, "  secret_file: secrets/proxy\n", "", "`proxy.secret_file` is missing."),
        (PROXY + GOOD[GOOD.index("oidc") : GOOD.index("groups")], "", "", "The file needs `oidc` or `proxy`, and one"),
        ("groups: {a: [viewer]}\n", "", "", "The file needs `oidc` or `proxy`, and one alone."),
    ],
)
def test_a_fault_is_told_with_its_line_and_the_way_out(
    tmp_path: Path, text: str, old: str, new: str, told: str
) -> None:
    file = tmp_path / "login.yaml"
    file.write_text(text.replace(old, new, 1))

    with pytest.raises(ConfigInvalid) as refusal:
        load_login(file)

    assert told in str(refusal.value)


def test_without_a_file_there_are_tokens_alone_and_one_that_became_wrong_locks_nobody_out(tmp_path: Path) -> None:
    file = tmp_path / "login.yaml"
    source = FileLogin(file)
    tokens_alone = source.current()
    file.write_text(GOOD)
    good = source.current()
    file.write_text("groups: {}\n")

    assert (tokens_alone, good.oidc is not None, source.current()) == (LoginConfig(), True, good)
    assert source.problem is not None


def test_the_example_that_ships_is_good_in_both_its_forms(tmp_path: Path) -> None:
    text = (ROOT / "config" / "login.example.yaml").read_text()
    oidc, proxy = text.index("oidc:\n"), text.index("# proxy:")
    lines = [line.removeprefix("# ") for line in text[proxy : text.index("# What the groups")].splitlines()]
    file = tmp_path / "login.yaml"
    file.write_text(text[:oidc] + "\n".join(lines) + text[text.index("# What the groups") :])

    assert load_login(ROOT / "config" / "login.example.yaml").oidc is not None
    assert load_login(file).proxy is not None
