"""The condition ResumeInexact: whether a run goes on from its checkpoint as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xeontrain_operator.api import conditions as c
from xeontrain_operator.reconcile.situation import Situation
from xeontrain_operator.reconcile.text import quote, sentence
from xeontrain_operator.reconcile.word import Word


def judge_resume(situation: Situation) -> Word | None:
    """None for a run that did not begin from a checkpoint, or does not say."""
    progress: Mapping[str, Any] = (situation.report or {}).get("progress") or {}
    resume: Mapping[str, Any] | None = progress.get("resume")
    if not resume:
        return None
    begun = f"The run goes on from the checkpoint of step {resume['step']}"
    if resume["exact"]:
        return Word(status="False", reason=c.RESUMED_EXACTLY, message=f"{begun} as if it had never stopped.")
    return Word(
        status="True",
        reason=c.RESUMED_OTHERWISE,
        message=f"{begun}, but not exactly: {sentence(quote(resume['reason']))}",
    )
