"""`xeontrain logs`: what a worker of a live job prints, or what was kept of a finished one.

With the caller's own kubeconfig and rights, like kubectl.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

from xeontrain_operator import constants
from xeontrain_operator.api.v1alpha1 import Metadata
from xeontrain_operator.builders.names import log_config_map_name, pod_name
from xeontrain_operator.cli.files import InputError
from xeontrain_operator.kube import config, errors, kinds
from xeontrain_operator.kube.aio import AioKubeClient
from xeontrain_operator.reconcile.pods import pod_uid, restart_count, trainer_status

Document = dict[str, Any]
Write = Callable[[str], None]
ENDED: Final = ("Succeeded", "Failed")
_POLL_SECONDS: Final = 1.0
# A job's end shows a moment after that of its container, which the kubelet then starts again.
_END_SHOWS_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Question:
    """Whose log is wanted. `namespace` None: that of the kubeconfig. `tail`: last lines; None: all."""

    job: str
    namespace: str | None = None
    worker: int | None = None
    tail: int | None = None
    follow: bool = False


def show_logs(question: Question, *, write: Write) -> None:
    """Write the log, as far as it goes or as long as the job lives. Raises InputError."""
    try:
        asyncio.run(_show(question, write=write))
    except config.ConfigurationError as error:
        raise InputError(str(error)) from None
    except errors.KubeError as error:
        raise InputError(_in_words(error, question)) from None


async def _show(question: Question, *, write: Write) -> None:
    namespace = question.namespace or config.default_namespace()
    client = AioKubeClient(await config.load(in_cluster=False))
    try:
        reader = _Reader(client, question, namespace=namespace)
        await reader.show(write)
    finally:
        await client.close()


class _Reader:
    def __init__(self, client: AioKubeClient, question: Question, *, namespace: str) -> None:
        self._client = client
        self._question = question
        self._namespace = namespace

    async def show(self, write: Write) -> None:
        job = await self._job()
        workers = int(job["spec"].get("workers", 1))
        if self._question.worker is not None and not 0 <= self._question.worker < workers:
            raise InputError(f"--worker: job {self._question.job} has the workers 0 to {workers - 1}")
        if not await self._show_pod(job, write=write):
            await self._show_kept(job, write=write)

    async def _show_pod(self, job: Document, *, write: Write) -> bool:
        """False where there is no pod to ask, and none is to come."""
        ended = _phase(job) in ENDED
        pod = await self._pod(job)
        if pod is None and (ended or not self._question.follow):
            return False
        if not self._question.follow or ended:
            async for text in self._stream(pod, follow=False):
                write(text)
            return True
        await self._follow(write)
        return True

    async def _follow(self, write: Write) -> None:
        """From one pod to its successor, and from one container to the next, until the job has ended."""
        seen: tuple[str, int] | None = None
        while True:
            job = await self._job()
            pod = await self._pod(job)
            life = _life(pod)
            if life is not None and life != seen and _phase(job) not in ENDED:
                seen = life
                await self._stream_while_there(pod, write=write)
                await self._end_shows()
            elif _phase(job) in (*ENDED, "Suspended"):
                if seen is None:
                    # It was over before it was looked at.
                    await self._show_kept(job, write=write)
                return
            else:
                await asyncio.sleep(_POLL_SECONDS)

    async def _stream_while_there(self, pod: Document | None, *, write: Write) -> None:
        """A pod may go between two looks; what comes after it is found by the next one."""
        with contextlib.suppress(errors.NotFound):
            async for text in self._stream(pod, follow=True):
                write(text)

    async def _end_shows(self) -> None:
        """A parked container repeats the end of the log: not to be shown a second time."""
        for _ in range(int(_END_SHOWS_SECONDS / _POLL_SECONDS)):
            if _phase(await self._job()) in ENDED:
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _stream(self, pod: Document | None, *, follow: bool) -> AsyncIterator[str]:
        if pod is None:
            return
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        chunks = self._client.stream_log(
            namespace=self._namespace,
            name=pod["metadata"]["name"],
            container=constants.CONTAINER_NAME,
            tail_lines=self._question.tail,
            follow=follow,
        )
        async for chunk in chunks:
            yield harmless(decoder.decode(chunk))
        yield harmless(decoder.decode(b"", final=True))

    async def _show_kept(self, job: Document, *, write: Write) -> None:
        name = log_config_map_name(Metadata.model_validate(job["metadata"]))
        try:
            found = await self._client.get(kinds.CONFIG_MAP, namespace=self._namespace, name=name)
        except errors.NotFound:
            raise InputError(self._nothing_in_words(job)) from None
        kept: dict[str, str] = found.get("data") or {}
        wanted = self._question.worker
        shown = {key: text for key, text in kept.items() if wanted is None or key == f"worker-{wanted}.log"}
        if not shown:
            others = ", ".join(sorted(key.removesuffix(".log") for key in kept))
            raise InputError(f"of job {self._question.job} only the logs of {others} were kept")
        for key, text in sorted(shown.items()):
            if len(shown) > 1:
                write(f"==> {key.removesuffix('.log')} <==\n")
            write(harmless(_last_lines(text, self._question.tail)))

    def _nothing_in_words(self, job: Document) -> str:
        phase = _phase(job) or "Pending"
        if phase in ENDED:
            return f"job {self._question.job} is {phase}, and no log was kept: its pods were gone by then"
        return (
            f"job {self._question.job} is {phase}, and worker {self._question.worker or 0} has no pod yet: "
            f"`kubectl describe xeontrainjob {self._question.job}` says why; --follow waits for it"
        )

    async def _job(self) -> Document:
        return await self._client.get(kinds.JOB, namespace=self._namespace, name=self._question.job)

    async def _pod(self, job: Document) -> Document | None:
        """The worker's pod, once its container has started; a stranger's of that name is none."""
        name = pod_name(Metadata.model_validate(job["metadata"]), worker=self._question.worker or 0)
        try:
            pod = await self._client.get(kinds.POD, namespace=self._namespace, name=name)
        except errors.NotFound:
            return None
        labels = pod["metadata"].get("labels") or {}
        ours = labels.get(constants.LABEL_JOB_UID) == job["metadata"]["uid"]
        return pod if ours and _life(pod) is not None else None


def _phase(job: Document) -> str:
    return str((job.get("status") or {}).get("phase") or "")


def _life(pod: Document | None) -> tuple[str, int] | None:
    """Which pod, and which life of its container; None before the first."""
    if pod is None:
        return None
    status = trainer_status(pod)
    has_begun = bool(status) and "waiting" not in (status.get("state") or {})
    return (pod_uid(pod), restart_count(pod)) if has_begun else None


def harmless(text: str) -> str:
    """Without what would steer a terminal: a log holds whatever a script has printed."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else " " for letter in text)


def _last_lines(text: str, count: int | None) -> str:
    lines = text.splitlines(keepends=True)
    return text if count is None else "".join(lines[len(lines) - min(count, len(lines)) :])


def _in_words(error: errors.KubeError, question: Question) -> str:
    if isinstance(error, errors.NotFound):
        where = f" in namespace {question.namespace}" if question.namespace else ""
        return f"there is no job {question.job}{where}: `kubectl get xeontrainjobs -A` lists them all"
    if isinstance(error, errors.Forbidden):
        return f"{error.message}. The cluster roles xeontrain-view and view give what is needed"
    return error.message
