"""The farm's servers are OpenSSH's own: what they accept, any server would."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.certificate import Certificate, CertificateAuthority, make_key
from lab.needs import need_root
from lab.sshd import SshdFarm, SshServer, greets

pytest_plugins = ["lab.fixtures"]
OPTIONS = ["BatchMode=yes", "LogLevel=ERROR", "IdentitiesOnly=yes", "StrictHostKeyChecking=yes"]


def _ssh(
    server: SshServer, user: str, key: Path, known: str, command: str, *, folder: Path
) -> subprocess.CompletedProcess[str]:
    known_hosts = folder / "known_hosts"
    known_hosts.write_text(known + "\n")
    flags = [part for option in [*OPTIONS, f"UserKnownHostsFile={known_hosts}"] for part in ("-o", option)]
    address = ["-p", str(server.port), f"{user}@{server.address}"]
    return subprocess.run(
        ["ssh", "-F", "/dev/null", *flags, "-i", str(key), *address, command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _pinned(server: SshServer, key: str) -> str:
    return f"[{server.address}]:{server.port} {key}"


def test_many_addresses_answer_under_one_port(sshd_farm: Callable[..., SshdFarm], tmp_path: Path) -> None:
    farm = sshd_farm(20)

    first, last = farm.servers[0], farm.servers[-1]
    said = [
        _ssh(s, farm.user, farm.private_key, _pinned(s, s.host_key), "echo $HOME", folder=tmp_path)
        for s in (first, last)
    ]

    assert [each.stdout for each in said] == [f"{farm.folder}/home\n"] * 2
    assert (len(farm.servers), len({s.host_key for s in farm.servers}), first.port == last.port) == (20, 2, True)


def test_separate_servers_have_their_own_key_and_run_folder(sshd_farm: Callable[..., SshdFarm], tmp_path: Path) -> None:
    need_root()
    farm = sshd_farm(2, separate=True)

    writes, looks = "mkdir /run/mark && ls -d /run/mark", "ls -d /run/mark || echo none"
    said = [
        _ssh(s, farm.user, farm.private_key, _pinned(s, s.host_key), command, folder=tmp_path).stdout
        for s, command in zip(farm.servers, (writes, looks), strict=True)
    ]

    assert (said, len({s.host_key for s in farm.servers})) == (["/run/mark\n", "none\n"], 2)


def test_a_new_host_key_is_refused_by_who_pinned_the_old(sshd_farm: Callable[..., SshdFarm], tmp_path: Path) -> None:
    farm = sshd_farm()
    before = farm.servers[0]

    farm.rekey()

    after = farm.servers[0]
    refused = _ssh(after, farm.user, farm.private_key, _pinned(after, before.host_key), "true", folder=tmp_path)
    accepted = _ssh(after, farm.user, farm.private_key, _pinned(after, after.host_key), "true", folder=tmp_path)
    assert (after.address, after.port) == (before.address, before.port)
    assert (refused.returncode, accepted.returncode) == (255, 0)


@pytest.mark.parametrize(
    ("certificate", "refusal"),
    [
        (Certificate(principals=["127.0.78.1"]), None),
        (Certificate(principals=["127.0.78.9"]), "Certificate invalid: name is not a listed principal"),
        (Certificate(principals=["127.0.78.1"], validity="-2d:-1d"), "Certificate invalid: expired"),
        (Certificate(principals=["127.0.78.1"], validity="+1d:+2d"), "Certificate invalid: not yet valid"),
        (Certificate(principals=["127.0.78.1"], host=False), "Certificate invalid: not a host certificate"),
        (
            Certificate(principals=["127.0.78.1"], critical="x@lab=1"),
            "Certificate contains unsupported critical option",
        ),
    ],
    ids=["good", "other principal", "expired", "not yet valid", "user type", "unknown critical option"],
)
def test_a_bad_host_certificate_is_refused_by_openssh_for_its_reason(
    sshd_farm: Callable[..., SshdFarm], tmp_path: Path, certificate: Certificate, refusal: str | None
) -> None:
    authority = CertificateAuthority(tmp_path)
    farm = sshd_farm(host_certificate=(authority, certificate))

    known = f"@cert-authority * {authority.public_key}"
    said = _ssh(farm.servers[0], farm.user, farm.private_key, known, "true", folder=tmp_path)

    if refusal is None:
        assert (said.returncode, said.stderr) == (0, "")
    else:
        assert (said.returncode, refusal in said.stderr) == (255, True), said.stderr


def test_one_server_is_the_way_to_another(sshd_farm: Callable[..., SshdFarm], tmp_path: Path) -> None:
    farm = sshd_farm(17)
    jump, target = farm.servers[0], farm.servers[-1]
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("".join(_pinned(each, each.host_key) + "\n" for each in (jump, target)))
    options = [*OPTIONS, f"UserKnownHostsFile={known_hosts}", f"IdentityFile={farm.private_key}"]
    flags = [part for option in options for part in ("-o", option)]
    command = ["ssh", "-F", "/dev/null", *flags]

    way = shlex.join([*command, "-p", str(jump.port), "-W", "%h:%p", f"{farm.user}@{jump.address}"])
    command += ["-o", f"ProxyCommand={way}", "-p", str(target.port), f"{farm.user}@{target.address}"]
    said = subprocess.run(
        [*command, "echo $SSH_CONNECTION"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert said.stdout.split()[2:] == [target.address, str(target.port)], said.stderr


def test_a_user_certificate_logs_in_and_a_bare_key_does_not(sshd_farm: Callable[..., SshdFarm], tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    farm = sshd_farm(user_ca=authority)
    server = farm.servers[0]
    signed, bare = make_key(tmp_path / "signed"), make_key(tmp_path / "bare")
    authority.sign(signed, Certificate(principals=[farm.user], host=False))

    said = [
        _ssh(server, farm.user, key, _pinned(server, server.host_key), "true", folder=tmp_path)
        for key in (signed, bare)
    ]

    assert [each.returncode for each in said] == [0, 255]


def test_a_closed_farm_leaves_no_server_no_session_and_no_folder(tmp_path: Path) -> None:
    need_root()
    with SshdFarm() as farm:
        server = farm.servers[0]
        start = "setsid sleep 4242 >/dev/null 2>&1 & echo $!"
        pid = _ssh(
            server, farm.user, farm.private_key, _pinned(server, server.host_key), start, folder=tmp_path
        ).stdout.strip()
        running = Path(f"/proc/{pid}").exists()

    cmdline = Path(f"/proc/{pid}/cmdline")
    left = cmdline.exists() and "4242" in cmdline.read_text()
    assert (running, left, greets(server.address, server.port), farm.folder.exists()) == (True, False, False, False)
