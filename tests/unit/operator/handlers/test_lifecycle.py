"""kopf is set up as a source of watch events that writes nothing."""

from __future__ import annotations

import kopf
import pytest
from xeontrain_operator import main
from xeontrain_operator.handlers.lifecycle import configure
from xeontrain_operator.kube import kinds

WATCHED = (kinds.JOB, *kinds.CHILDREN)


@pytest.fixture
def settings() -> kopf.OperatorSettings:
    """kopf's settings as `configure` leaves them."""
    made = kopf.OperatorSettings()
    configure(made)
    return made


def test_no_handler_needs_a_finalizer_or_keeps_progress() -> None:
    """Only `on.event` on objects: the other kinds of handlers write to them."""
    registry = kopf.get_default_registry()
    assert registry._changing.get_all_handlers() == []
    assert registry._spawning.get_all_handlers() == []
    assert registry._indexing.get_all_handlers() == []
    watched = {
        (handler.selector.group, handler.selector.version, handler.selector.any_name)
        for handler in registry._watching.get_all_handlers()
        if handler.selector is not None
    }
    assert watched == {(kind.group, kind.version, kind.plural) for kind in WATCHED}
    assert main.watches.job is not None


def test_no_events_no_peering_no_scan(settings: kopf.OperatorSettings) -> None:
    """kopf posts nothing, heeds no other operator, and needs no rights on definitions and namespaces."""
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled


def test_streams_end_and_lists_are_paged(settings: kopf.OperatorSettings) -> None:
    """A dead stream is noticed; a large cluster does not come in one answer."""
    watching = settings.watching
    assert (watching.server_timeout, watching.client_timeout, watching.connect_timeout) == (300, 310, 30)
    assert watching.chunk_size == 500


@pytest.mark.parametrize("kind", kinds.CHILDREN, ids=lambda kind: kind.plural)
def test_only_our_children_are_sent(settings: kopf.OperatorSettings, kind: kinds.Kind) -> None:
    """The API server filters: other people's pods never reach the process."""
    selector = settings.watching.label_selectors[(kind.group, kind.version, kind.plural)]
    assert selector == "app.kubernetes.io/managed-by=xeontrain-operator"


def test_kopf_copies_nothing_and_stores_nothing(settings: kopf.OperatorSettings) -> None:
    """Whatever the object, kopf's view of its essence is empty, and storing changes no patch."""
    body = kopf.Body({"metadata": {"name": "x", "annotations": {"a": "b"}}, "spec": {"big": ["x"] * 1000}})
    patch = kopf.Patch()
    diffbase, progress = settings.persistence.diffbase_storage, settings.persistence.progress_storage
    essence = diffbase.build(body=body)
    assert progress.clear(essence=essence) == {}
    assert diffbase.fetch(body=body) is None
    diffbase.store(body=body, patch=patch, essence=essence)
    progress.touch(body=body, patch=patch, value="x")
    assert not patch
