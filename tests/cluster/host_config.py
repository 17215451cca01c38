"""What a build inside a container takes over from this machine so that apt and pip work there too.

Certificates, pip's configuration and apt's download settings are mounted read-only while a build runs;
none of it goes into an image (empty mount points at most) or into the repository.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)
# Where Debian's images have the bundle that openssl, apt and pip read.
CONTAINER_CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
CONTAINER_PIP_CONFIG = "/etc/pip.conf"
CONTAINER_APT_CONFIG = "/etc/apt/apt.conf.d/99host"

PIP_LINE = re.compile(r"^(?:global|install|:env:)\.([a-z-]+)='(.*)'$")
PIP_KEYS = (
    *("index-url", "extra-index-url", "find-links", "no-index", "trusted-host"),
    *("proxy", "timeout", "default-timeout", "retries"),
)
APT_LINE = re.compile(
    r"^Acquire::(https?::(Proxy|Verify-Peer|Verify-Host|Timeout)|Check-Valid-Until|Check-Date|Retries) "
    r'".*";$',
    re.IGNORECASE,
)


def ca_bundle() -> Path | None:
    """Returns this machine's bundle of certificates, the one that SSL_CERT_FILE names first."""
    for candidate in (os.environ.get("SSL_CERT_FILE", ""), *CA_BUNDLES):
        if candidate and Path(candidate).is_file():
            return Path(candidate)
    return None


def pip_config(listing: str) -> str:
    """Returns a pip.conf with the download settings of a `pip config list`.

    Later lines win, as in pip itself (the environment comes last there). The certificate is left out: the
    bundle is mounted where the container's pip looks.
    """
    values = {}
    for line in listing.splitlines():
        match = PIP_LINE.match(line)
        if match and match.group(1) in PIP_KEYS:
            values[match.group(1).removeprefix("default-")] = match.group(2)
    lines = [f"{key} = {value}" for key, value in values.items()]
    return "\n".join(["[global]", *lines]) + "\n"


def apt_config(dump: str) -> str:
    """Returns the download settings of an `apt-config dump`, fit for a file in apt.conf.d."""
    return "".join(f"{line}\n" for line in dump.splitlines() if APT_LINE.match(line))


def mounts(scratch: Path) -> list[str]:
    """Writes the configuration into a scratch folder and returns buildah's --volume arguments."""
    found = [(ca_bundle(), CONTAINER_CA_BUNDLE)]
    pip = pip_config(_output([sys.executable, "-m", "pip", "config", "list"]))
    found.append((_write(scratch / "pip.conf", pip), CONTAINER_PIP_CONFIG))
    found.append(
        (_write(scratch / "apt.conf", apt_config(_output(["apt-config", "dump"]))), CONTAINER_APT_CONFIG)
    )
    found += [(folder, str(folder)) for folder in _find_links(pip)]
    return [f"--volume={source}:{target}:ro" for source, target in found if source]


def _find_links(config: str) -> list[Path]:
    lines = [line for line in config.splitlines() if line.startswith("find-links = ")]
    words = lines[0].split()[2:] if lines else []
    return [Path(word) for word in words if Path(word).is_dir()]


def debian_mirror(sources: str) -> str | None:
    """Returns the mirror of Debian that a machine's apt sources name, None where it is not Debian's.

    Both forms are read: `deb URL suite ...` and the `URIs:` of a deb822 file.
    """
    pattern = re.compile(r"^(?:deb\s+(?:\[.*?\]\s+)?|URIs:\s+)(https?://\S+?/debian/?)(?:\s|$)", re.MULTILINE)
    match = pattern.search(sources)
    return match.group(1) if match else None


def host_debian_mirror() -> str | None:
    """Returns XEONTRAIN_DEBIAN_MIRROR, or this machine's own mirror, or None (debootstrap's default)."""
    if os.environ.get("XEONTRAIN_DEBIAN_MIRROR"):
        return os.environ["XEONTRAIN_DEBIAN_MIRROR"]
    apt = Path("/etc/apt")
    files = [
        apt / "sources.list",
        *sorted(apt.glob("sources.list.d/*.sources")),
        *sorted(apt.glob("sources.list.d/*.list")),
    ]
    return debian_mirror("\n".join(path.read_text() for path in files if path.is_file()))


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _output(argv: list[str]) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stdout
    except OSError:
        return ""
