"""A certificate for 127.0.0.1 and the kubeconfig that believes it."""

import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for 127.0.0.1 that signs itself, and its key; return both files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-lab")])
    moment = datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(moment - timedelta(days=1)).not_valid_after(moment + timedelta(days=7))
    builder = builder.add_extension(address, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    files = folder / "server.crt", folder / "server.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    files[1].touch(mode=0o600)
    files[1].write_bytes(secret)
    return files


def write_kubeconfig(folder: Path, *, port: int, certificate: Path, token: str) -> Path:
    """Write a kubeconfig (JSON, which is YAML too) and return it."""
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "unstick", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "unstick"}}],
    }
    made = folder / "kubeconfig"
    made.touch(mode=0o600)
    made.write_text(json.dumps(config, indent=2))
    return made
