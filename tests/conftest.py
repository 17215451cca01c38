"""Fixtures of the tiers that need a real Kubernetes.

What is slow and done once (building programs and images) happens before the first test, outside of its
timeout. Where this machine cannot run a tier its tests skip with the reason and the remedy; under CI=true
or XEONTRAIN_REQUIRE_ALL=1 they fail instead.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
from collections.abc import Callable, Generator, Iterator, Sequence

import pytest

from tests.cluster import binaries, requirements, settings
from tests.cluster.cluster import ALIASES, Cluster, prepare
from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import ClusterError, RequirementMissing

CONTROL_PLANE_FIXTURE = "control_plane"
CLUSTER_FIXTURE = "cluster"
# An image is built, which may take minutes, where a test asks for it by its fixture.
IMAGE_FIXTURES = {"thin_image": "thin", "operator_image": "operator", "trainer_image": "trainer"}

# Why a tier cannot run, by fixture; filled in before the first test.
_not_ready = pytest.StashKey[dict[str, Exception]]()
_images = pytest.StashKey[Sequence[str]]()


def pytest_sessionstart() -> None:
    """Ctrl-C works in what the tests start, also where a shell ran them in the background and ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the collected tests will need."""
    session.config.stash[_not_ready] = {}
    if session.config.option.collectonly:
        return
    wanted = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if CONTROL_PLANE_FIXTURE in wanted:
        _prepare(session.config, CONTROL_PLANE_FIXTURE, _prepare_control_plane)
    images = [image for fixture, image in IMAGE_FIXTURES.items() if fixture in wanted]
    session.config.stash[_images] = images
    if CLUSTER_FIXTURE in wanted:
        _prepare(session.config, CLUSTER_FIXTURE, lambda: prepare(images))


def _prepare(config: pytest.Config, fixture: str, step: Callable[[], object]) -> None:
    capture = config.pluginmanager.getplugin("capturemanager")
    visible = capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
    with visible:
        try:
            step()
        except ClusterError as error:
            config.stash[_not_ready][fixture] = error


def _prepare_control_plane() -> None:
    requirements.require_control_plane()
    binaries.ensure(binaries.CONTROL_PLANE_PROGRAMS)


def _skip_unless_ready(config: pytest.Config, fixture: str) -> None:
    """Skips where the machine cannot run the tier; a real failure, or a skip in CI, fails."""
    error = config.stash[_not_ready].get(fixture)
    if error is None:
        return
    if isinstance(error, RequirementMissing) and not settings.must_run_all():
        pytest.skip(f"{fixture}: {error}")
    pytest.fail(f"{fixture}: {error}", pytrace=False)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A real API server with its controllers and scheduler, no nodes; one for the whole run."""
    _skip_unless_ready(request.config, CONTROL_PLANE_FIXTURE)
    with ControlPlane.running() as running:
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a fresh namespace of the control plane; deleted, without waiting, after the test."""
    name = f"t-{secrets.token_hex(4)}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Two pinned nodes and an unpinned one, with DNS, Services, volumes and images; one for the whole run."""
    _skip_unless_ready(request.config, CLUSTER_FIXTURE)
    with Cluster.running(images=request.config.stash[_images]) as running:
        yield running


@pytest.fixture(scope="session")
def operator_image(cluster: Cluster) -> str:
    """The name of the operator's image, the chart's default: a test that installs the chart asks for it."""
    return ALIASES["operator"]


@pytest.fixture(scope="session")
def trainer_image(cluster: Cluster) -> str:
    """The name of the image with torch and the example's model; the chart's default for jobs."""
    return ALIASES["trainer"]


@pytest.fixture(scope="session")
def thin_image(cluster: Cluster) -> str:
    """The name of the image with the launcher alone, for `command` jobs."""
    return ALIASES["thin"]


@pytest.fixture
def cluster_namespace(cluster: Cluster) -> Iterator[str]:
    """The name of a fresh namespace of the cluster; deleted, without waiting, after the test."""
    name = f"t-{secrets.token_hex(4)}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Says under a failed test where the components' logs are, and what the one that died said."""
    report = yield
    used = getattr(item, "funcargs", {})
    control_planes = [
        used.get(CONTROL_PLANE_FIXTURE),
        getattr(used.get(CLUSTER_FIXTURE), "control_plane", None),
    ]
    if report.failed:
        for running in filter(None, control_planes):
            report.sections.append(("cluster", _state_of(running)))
    return report


def _state_of(running: ControlPlane) -> str:
    text = f"logs of the components: {running.folder.logs}"
    try:
        running.components.check()
    except ClusterError as error:
        text += f"\n{error}"
    return text
