import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.domain.node import Endpoint, ExecutorKind
from service.domain.public_key import parse_public_key
from service.domain.script import NotStarted, ReportState
from service.executors.not_sent import NotSent
from service.executors.ssh.executor import SshExecutor
from service.executors.ssh.host_keys import HostKeys, Known
from service.executors.ssh.known_hosts import read_known_hosts
from tests.executors.ssh.sshd import Sshd, make_key, sign
from tests.executors.ssh.support import Heard, executor, order, said

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAabAeDOvM2SGPZmqnMcLi3bdLqiXmbUHiZDYqNk1ExP"


@pytest.mark.parametrize(
    ("line", "name", "found"),
    [
        (f"192.0.2.1 {ED25519}", "192.0.2.1", True),
        (f"gpu-01,192.0.2.1 {ED25519} a comment", "192.0.2.1", True),
        (f"GPU-01 {ED25519}", "gpu-01", True),
        (f"[192.0.2.1]:2222 {ED25519}", "[192.0.2.1]:2222", True),
        (f"[192.0.2.1]:2222 {ED25519}", "192.0.2.1", False),
        (f"192.0.2.1 {ED25519}", "[192.0.2.1]:2222", False),
        (f"*.lab,!bad.lab {ED25519}", "gpu.lab", True),
        (f"*.lab,!bad.lab {ED25519}", "bad.lab", False),
        (f"gpu-0? {ED25519}", "gpu-01", True),
        (f"[gpu-*]:2222 {ED25519}", "[gpu-01]:2222", True),
        (f"# 192.0.2.1 {ED25519}", "192.0.2.1", False),
        ("192.0.2.1 ssh-ed25519 nonsense", "192.0.2.1", False),
        ("192.0.2.1", "192.0.2.1", False),
        (f"@unheard-of 192.0.2.1 {ED25519}", "192.0.2.1", False),
        (f"|1|broken {ED25519}", "192.0.2.1", False),
    ],
)
def test_a_line_of_known_hosts_speaks_of_its_machines_only(line: str, name: str, found: bool) -> None:
    keys = read_known_hosts(f"\n{line}\n").of([name]).keys

    assert keys == ((parse_public_key(ED25519),) if found else ())


@pytest.mark.parametrize("name", ["gpu-01", "[192.0.2.1]:2222"])
def test_names_that_ssh_keygen_hashed_are_found(tmp_path: Path, name: str) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"{name} {ED25519}\nother {OTHER}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, timeout=60, capture_output=True)

    text = path.read_text()

    assert name not in text
    assert read_known_hosts(text).of([name]).keys == (parse_public_key(ED25519),)


def test_markers_say_what_the_key_is() -> None:
    found = read_known_hosts(f"@cert-authority *.lab {ED25519}\n@revoked * {OTHER}").of(["gpu.lab"])

    assert (found.keys, found.authorities, found.revoked) == (
        (), (parse_public_key(ED25519),), (parse_public_key(OTHER),),
    )  # fmt: skip


def test_a_pinned_type_is_asked_for_first_and_certificates_only_with_an_authority() -> None:
    pinned = Known(pinned=(parse_public_key(ED25519),))
    signed = Known(authorities=(parse_public_key(ED25519),))

    assert pinned.algorithms()[:2] == ("ssh-ed25519", "ecdsa-sha2-nistp256")
    assert not any("cert" in algorithm for algorithm in pinned.algorithms())
    assert signed.algorithms()[0] == "ssh-ed25519-cert-v01@openssh.com"


def test_s17_an_endpoint_without_any_host_key_is_refused_before_it_is_dialled() -> None:
    with pytest.raises(NotSent) as caught:
        HostKeys().known(Endpoint("gpu-01", ExecutorKind.SSH, "192.0.2.1"))

    assert caught.value.cause is NotStarted.HOST_KEY
    assert "The host key of gpu-01 (192.0.2.1) is not known." in str(caught.value)
    assert "unstick nodes add gpu-01 --scan" in str(caught.value)


def refusal(endpoint: Endpoint, ssh: SshExecutor, log: Callable[[], str]) -> str:
    before = log().count("Accepted publickey")

    report = ssh.start(order(endpoint, "true"), Heard())

    assert said(report) == (ReportState.NOT_STARTED, NotStarted.HOST_KEY, None), report.reason
    assert log().count("Accepted publickey") == before
    return report.reason


def accepted(endpoint: Endpoint, ssh: SshExecutor) -> None:
    report = ssh.start(order(endpoint, "true"), Heard())

    assert said(report) == (ReportState.FINISHED, None, 0), report.reason


def test_a_changed_host_key_is_refused_before_login_with_its_fingerprint(sshd: Sshd, ssh: SshExecutor) -> None:
    reason = refusal(sshd.endpoint(host_keys=(OTHER,)), ssh, lambda: sshd.log)

    assert "The host key of gpu-01 (127.0.79.1) has changed" in reason
    assert parse_public_key(sshd.host_key).fingerprint in reason
    assert parse_public_key(OTHER).fingerprint in reason
    assert "replace `host_key` in inventory.yaml" in reason


def test_a_known_ecdsa_key_is_enough_for_a_server_that_also_has_ed25519(sshd: Sshd, ssh: SshExecutor) -> None:
    accepted(sshd.endpoint(host_keys=(sshd.public("host_ecdsa"),)), ssh)


def test_an_rsa_host_key_is_accepted_when_pinned(sshd: Sshd, ssh: SshExecutor) -> None:
    accepted(sshd.endpoint(host_keys=(sshd.public("host_rsa"),)), ssh)


def test_a_server_that_has_no_key_of_the_known_type_is_refused_with_what_it_has(
    own_sshd: Sshd, ssh: SshExecutor, tmp_path: Path
) -> None:
    make_key(tmp_path / "ecdsa", "ecdsa")
    known = " ".join((tmp_path / "ecdsa.pub").read_text().split()[:2])

    reason = refusal(own_sshd.endpoint(host_keys=(known,)), ssh, lambda: own_sshd.log)

    assert "is not known: only one of another type is (ecdsa-sha2-nistp256)" in reason
    assert parse_public_key(own_sshd.host_key).fingerprint in reason


@pytest.mark.parametrize("hashed", [False, True])
def test_a_known_hosts_file_with_a_port_is_used(sshd: Sshd, ssh: SshExecutor, tmp_path: Path, hashed: bool) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"[{sshd.address}]:{sshd.port} {sshd.host_key}\n")
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, timeout=60, capture_output=True)

    accepted(sshd.endpoint(host_keys=(), known_hosts_file=str(path)), ssh)


def test_a_known_hosts_file_that_says_nothing_or_revokes_is_a_refusal(
    sshd: Sshd, ssh: SshExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "known_hosts"
    endpoint = sshd.endpoint(host_keys=(), known_hosts_file=str(path))

    missing = refusal(endpoint, ssh, lambda: sshd.log)
    path.write_text(f"{sshd.address} {sshd.host_key}\n")
    other_port = refusal(endpoint, ssh, lambda: sshd.log)
    path.write_text(f"[{sshd.address}]:{sshd.port} {sshd.host_key}\n@revoked * {sshd.host_key}\n")
    revoked = refusal(endpoint, ssh, lambda: sshd.log)

    assert f"The known_hosts file {path} cannot be read" in missing
    assert f"is not known (nothing in {path})" in other_port
    assert "is marked @revoked" in revoked


@pytest.fixture(scope="module")
def signed_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """An sshd that shows whatever certificate lies beside its host key."""
    folder = tmp_path_factory.mktemp("signed")
    make_key(folder / "ca")
    make_key(folder / "other_ca")
    machine = Sshd(folder, settings=[f"HostCertificate {folder}/host_ed25519-cert.pub"], start=False)
    with machine:
        yield machine


def show(machine: Sshd, authority: str, *options: str) -> None:
    machine.power_off()
    sign(machine.folder / authority, machine.folder / "host_ed25519.pub", *options)
    machine.boot()


def test_a_host_certificate_of_a_known_authority_is_accepted(signed_sshd: Sshd, ssh: SshExecutor) -> None:
    show(signed_sshd, "ca", "-h", "-n", f"elsewhere,{signed_sshd.address}")

    accepted(signed_sshd.endpoint(host_keys=(), host_authorities=(signed_sshd.public("ca"),)), ssh)


def test_the_name_of_the_node_is_a_principal_too(signed_sshd: Sshd, ssh: SshExecutor, tmp_path: Path) -> None:
    show(signed_sshd, "ca", "-h", "-n", "gpu-01", "-V", "-1d:+1d")
    path = tmp_path / "known_hosts"
    path.write_text(f"@cert-authority [127.0.79.*]:* {signed_sshd.public('ca')}\n")

    accepted(signed_sshd.endpoint(host_keys=(), known_hosts_file=str(path)), ssh)


@pytest.mark.parametrize(
    ("authority", "options", "reason"),
    [
        ("other_ca", ("-h", "-n", "gpu-01"), "which is none of the known authorities"),
        ("ca", ("-h", "-n", "gpu-01", "-V", "20200101000000Z:20200201000000Z"), "expired at 2020-02-01T00:00:00+00:00"),
        ("ca", ("-h", "-n", "gpu-01", "-V", "20990101000000Z:20990201000000Z"), "valid only from 2099-01-01T00:00:00"),
        ("ca", ("-n", "gpu-01"), "is made for users and not for machines"),
        ("ca", ("-h", "-n", "gpu-02,gpu-03"), "is made for gpu-02, gpu-03 and not for 127.0.79.1 or gpu-01"),
        ("ca", ("-h", "-n", "gpu-*"), "is made for gpu-* and not for"),
        ("ca", ("-h",), "is made for no name at all"),
        ("ca", ("-h", "-n", "gpu-01", "-O", "critical:new@example.com=x"), "has the critical option new@example.com"),
    ],
)  # fmt: skip
def test_a_host_certificate_is_refused_before_login(
    signed_sshd: Sshd, ssh: SshExecutor, authority: str, options: tuple[str, ...], reason: str
) -> None:
    show(signed_sshd, authority, *options)
    endpoint = signed_sshd.endpoint(host_keys=(), host_authorities=(signed_sshd.public("ca"),))

    refused = refusal(endpoint, ssh, lambda: signed_sshd.log)

    assert refused.startswith("The host certificate of gpu-01 (127.0.79.1) ")
    assert reason in refused
    assert parse_public_key(signed_sshd.host_key).fingerprint in refused


def test_the_clock_that_was_given_decides_about_dates(signed_sshd: Sshd) -> None:
    show(signed_sshd, "ca", "-h", "-n", "gpu-01", "-V", "20200101000000Z:20200201000000Z")
    then = executor(clock=lambda: datetime(2020, 1, 15, tzinfo=UTC))

    accepted(signed_sshd.endpoint(host_keys=(), host_authorities=(signed_sshd.public("ca"),)), then)
    then.close()


def test_a_server_without_a_certificate_is_refused_when_only_an_authority_is_known(
    own_sshd: Sshd, ssh: SshExecutor
) -> None:
    reason = refusal(own_sshd.endpoint(host_keys=(), host_authorities=(OTHER,)), ssh, lambda: own_sshd.log)

    assert "is not signed: it shows no certificate of a known authority" in reason


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_certificates_of_other_key_types_are_negotiated_too(tmp_path: Path, ssh: SshExecutor, kind: str) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    make_key(folder / "ca", kind)
    machine = Sshd(
        folder, settings=[f"HostCertificate {folder}/host_{kind}-cert.pub"], kinds=("ed25519", kind), start=False
    )
    with machine:
        sign(folder / "ca", folder / f"host_{kind}.pub", "-h", "-n", "gpu-01")
        machine.boot()

        accepted(machine.endpoint(host_keys=(), host_authorities=(machine.public("ca"),)), ssh)


def test_a_user_certificate_lets_us_in_where_the_bare_key_does_not(tmp_path: Path, ssh: SshExecutor) -> None:
    folder = tmp_path / "sshd"
    folder.mkdir()
    make_key(folder / "ca")
    with Sshd(folder, settings=[f"TrustedUserCAKeys {folder}/ca.pub", "AuthorizedKeysFile none"]) as machine:
        certificate = sign(folder / "ca", folder / "user_key.pub", "-n", "root")
        bare = ssh.start(order(machine.endpoint(), "true"), Heard())

        accepted(machine.endpoint(certificate_file=str(certificate)), ssh)

    assert said(bare) == (ReportState.NOT_STARTED, NotStarted.LOGIN, None)
    assert f"its sshd does not accept the key file {machine.key_file}" in bare.reason
