"""A build takes over what apt and pip need from the host, and nothing that would not work in a container."""

from __future__ import annotations

import pytest

from tests.cluster import host_config


@pytest.mark.parametrize(
    ("listing", "lines"),
    [
        pytest.param("", ["[global]"], id="nothing set"),
        pytest.param(
            "global.index-url='https://pip.example/simple'\nglobal.cert='/etc/ca.crt'\n",
            ["[global]", "index-url = https://pip.example/simple"],
            id="the certificate is mounted, not named",
        ),
        pytest.param(
            ":env:.default-timeout='180'\n:env:.disable-pip-version-check='1'\n",
            ["[global]", "timeout = 180"],
            id="environment under its name in a file",
        ),
        pytest.param(
            "global.index-url='https://a.example'\n:env:.index-url='https://b.example'\n",
            ["[global]", "index-url = https://b.example"],
            id="the environment wins",
        ),
    ],
)
def test_pip_settings_are_taken_over(listing: str, lines: list[str]) -> None:
    assert host_config.pip_config(listing).splitlines() == lines


def test_only_download_settings_of_apt_are_taken_over() -> None:
    dump = (
        'APT::Architecture "amd64";\n'
        'Acquire::Check-Valid-Until "false";\n'
        'Acquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::IndexTargets::deb::DEP-11::MetaKey "dep11";\n'
        'DPkg::Post-Invoke:: "rm -f /x";\n'
    )
    assert host_config.apt_config(dump).splitlines() == [
        'Acquire::Check-Valid-Until "false";',
        'Acquire::http::Proxy "http://proxy.example:3128";',
    ]


@pytest.mark.parametrize(
    ("sources", "mirror"),
    [
        pytest.param("deb http://m.example/debian bookworm main\n", "http://m.example/debian", id="one line"),
        pytest.param(
            "deb [arch=amd64] https://m.example/debian/ sid main\n", "https://m.example/debian/", id="options"
        ),
        pytest.param(
            "Types: deb\nURIs: http://m.example/debian\nSuites: x\n", "http://m.example/debian", id="deb822"
        ),
        pytest.param("deb http://m.example/ubuntu noble main\n", None, id="another distribution"),
        pytest.param("URIs: http://m.example/debian-security\n", None, id="not the archive itself"),
    ],
)
def test_debians_mirror_is_found(sources: str, mirror: str | None) -> None:
    assert host_config.debian_mirror(sources) == mirror
