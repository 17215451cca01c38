"""The queue: keys merge, one worker a key, the earliest time wins, nothing that was wanted is lost."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_operator.workqueue import Backoff, RetryLater, Schedule, WorkQueue


def _drain(schedule: Schedule[str], *, now: float) -> list[str]:
    taken = []
    while (key := schedule.take(now=now)) is not None:
        taken.append(key)
        schedule.finish(key)
    return taken


def test_equal_keys_merge() -> None:
    """A burst of wishes for one key is one piece of work."""
    schedule: Schedule[str] = Schedule()
    for moment in range(30):
        schedule.add("a", due=float(moment) / 100)
    assert _drain(schedule, now=1.0) == ["a"]


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        pytest.param([5.0, 2.0, 9.0], 2.0, id="moved forward"),
        pytest.param([2.0, 5.0], 2.0, id="never moved back"),
        pytest.param([3.0, 3.0], 3.0, id="equal"),
    ],
)
def test_earliest_time_wins(wishes: list[float], expected: float) -> None:
    """Of several wishes for a key the earliest counts, and there is only one."""
    schedule: Schedule[str] = Schedule()
    for due in wishes:
        schedule.add("a", due=due)
    assert schedule.next_due() == expected
    assert schedule.take(now=expected - 0.001) is None
    assert _drain(schedule, now=100.0) == ["a"]


def test_key_in_work_is_not_taken_twice() -> None:
    """A wish that comes while the key is in work waits for its end, and is then due."""
    schedule: Schedule[str] = Schedule()
    schedule.add("a", due=0.0)
    assert schedule.take(now=0.0) == "a"
    schedule.add("a", due=0.0)
    assert schedule.take(now=1.0) is None
    assert schedule.next_due() is None
    schedule.finish("a")
    assert schedule.take(now=1.0) == "a"


def test_forgotten_key_does_not_come_back() -> None:
    """A job that is gone leaves no wishes and no failures."""
    schedule: Schedule[str] = Schedule(backoff=Backoff(base_seconds=1.0))
    schedule.failed("a", now=0.0, jitter=0.0)
    schedule.forget("a")
    assert _drain(schedule, now=100.0) == []
    assert schedule.failed("a", now=0.0, jitter=0.0) == 1.0


@pytest.mark.parametrize(
    ("failures", "jitter", "expected"),
    [
        pytest.param(1, 0.0, 1.0, id="first"),
        pytest.param(4, 0.0, 8.0, id="doubled"),
        pytest.param(4, 0.5, 6.0, id="jitter takes off"),
        pytest.param(500, 0.0, 60.0, id="bounded"),
    ],
)
def test_backoff_delays(failures: int, jitter: float, expected: float) -> None:
    """Delays double up to a bound; jitter shortens them by up to half."""
    backoff = Backoff(base_seconds=1.0, max_seconds=60.0)
    assert backoff.delay_seconds(failures, jitter=jitter) == expected


def test_success_ends_the_back_off() -> None:
    """After a success the next failure begins anew."""
    schedule: Schedule[str] = Schedule(backoff=Backoff(base_seconds=1.0))
    assert [schedule.failed("a", now=0.0, jitter=0.0) for _ in range(3)] == [1.0, 2.0, 4.0]
    schedule.succeeded("a")
    assert schedule.failed("a", now=0.0, jitter=0.0) == 1.0


def test_server_may_ask_for_a_longer_delay() -> None:
    """`Retry-After` of the API server is kept, however short the back-off is."""
    schedule: Schedule[str] = Schedule(backoff=Backoff(base_seconds=1.0))
    assert schedule.failed("a", now=0.0, jitter=0.0, at_least_seconds=30.0) == 30.0


def test_ages_tell_waiting_and_stuck_keys() -> None:
    """The probes see both a key that nobody takes and one that somebody does not let go of."""
    schedule: Schedule[str] = Schedule()
    schedule.add("later", due=100.0)
    assert (schedule.depth(now=10.0), schedule.oldest_wait_seconds(now=10.0)) == (0, 0.0)
    schedule.add("waiting", due=1.0)
    schedule.add("stuck", due=0.0)
    assert schedule.take(now=2.0) == "stuck"
    assert (schedule.depth(now=10.0), schedule.oldest_wait_seconds(now=10.0)) == (1, 9.0)
    assert schedule.longest_work_seconds(now=10.0) == 8.0


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abc"), st.floats(0, 10)),
        st.tuples(st.just("take"), st.just(""), st.floats(0, 3)),
        st.tuples(st.just("finish"), st.sampled_from("abc"), st.just(0.0)),
    ),
    max_size=60,
)


@given(_STEPS)
def test_no_wish_is_lost_and_no_key_is_doubled(steps: list[tuple[str, str, float]]) -> None:
    """Whatever the order of wishes, takings and endings: a key is in one pair of hands, and every key
    whose last wish came after it was last taken is taken in the end."""
    schedule: Schedule[str] = Schedule()
    now, active, wanted = 0.0, set[str](), set[str]()
    for step, key, number in steps:
        if step == "add":
            schedule.add(key, due=now + number)
            wanted.add(key)
        elif step == "finish" and key in active:
            schedule.finish(key)
            active.discard(key)
        elif step == "take":
            now += number
            taken = schedule.take(now=now)
            if taken is not None:
                assert taken not in active
                active.add(taken)
                wanted.discard(taken)
    for key in active:
        schedule.finish(key)
    assert sorted(_drain(schedule, now=now + 100.0)) == sorted(wanted)


async def test_workers_never_share_a_key() -> None:
    """With many workers and wishes that come during the work, a key is worked on by one at a time, and
    once more after the last wish."""
    running, overlaps, done = set[str](), list[str](), asyncio.Event()
    runs: dict[str, int] = {}

    async def handle(key: str) -> float | None:
        overlaps.extend([key] if key in running else [])
        running.add(key)
        runs[key] = runs.get(key, 0) + 1
        if runs[key] == 1:
            queue.add(key)
        await asyncio.sleep(0)
        running.discard(key)
        if all(runs.get(name) == 2 for name in "abcde"):
            done.set()
        return None

    queue: WorkQueue[str] = WorkQueue(handle, name="test", num_workers=4)
    queue.start()
    for key in "abcde":
        queue.add(key)
    await done.wait()
    await queue.stop(grace_seconds=5.0)
    assert overlaps == []
    assert runs == dict.fromkeys("abcde", 2)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(RuntimeError("a bug"), id="bug"),
        pytest.param(RetryLater("busy", after_seconds=0.0), id="transient fault"),
        pytest.param(TimeoutError(), id="too slow"),
    ],
)
async def test_failed_key_comes_back_and_workers_survive(error: Exception) -> None:
    """No exception of a handler ends a worker; the key is tried again until it succeeds."""
    tries, done = list[str](), asyncio.Event()

    async def handle(key: str) -> float | None:
        tries.append(key)
        if len(tries) < 3:
            raise error
        done.set()
        return None

    queue: WorkQueue[str] = WorkQueue(handle, name="test", num_workers=1, backoff=Backoff(base_seconds=0.0))
    queue.start()
    queue.add("a")
    await done.wait()
    assert queue.is_running()
    await queue.stop(grace_seconds=5.0)
    assert tries == ["a", "a", "a"]


async def test_handler_that_hangs_is_cut_off() -> None:
    """A handler that does not return in time is cancelled, and the key is tried again."""
    tries, done = list[str](), asyncio.Event()

    async def handle(key: str) -> float | None:
        tries.append(key)
        if len(tries) == 1:
            await asyncio.Event().wait()
        done.set()
        return None

    queue: WorkQueue[str] = WorkQueue(
        handle, name="test", num_workers=1, timeout_seconds=0.01, backoff=Backoff(base_seconds=0.0)
    )
    queue.start()
    queue.add("a")
    await done.wait()
    await queue.stop(grace_seconds=5.0)
    assert tries == ["a", "a"]


async def test_requeue_at_the_returned_time() -> None:
    """What a handler returns is when it is called again."""
    runs, done = list[str](), asyncio.Event()

    async def handle(key: str) -> float | None:
        runs.append(key)
        if len(runs) == 3:
            done.set()
            return None
        return 0.001

    queue: WorkQueue[str] = WorkQueue(handle, name="test", num_workers=2)
    queue.start()
    queue.add("a")
    await done.wait()
    await queue.stop(grace_seconds=5.0)
    assert runs == ["a"] * 3
