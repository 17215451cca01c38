"""Output is cut into lines, and the one line that tells why a rank died is found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xeontrain_trainer.launcher.output import (
    KEEP_BYTES,
    MAX_LINE_BYTES,
    ErrorTail,
    LineBuffer,
    error_file_message,
    one_line,
)
from xeontrain_trainer.launcher.supervisor import exit_message


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], id="two-lines"),
        pytest.param([b"a", b"b\nc"], [b"ab", b"c"], id="over-chunks"),
        pytest.param([b"a\r\nb\r\n"], [b"a", b"b"], id="windows-ends"),
        pytest.param([b"10%\r20%\r", b"100%\n"], [b"100%"], id="progress-bar"),
        pytest.param([b"\n\n"], [b"", b""], id="empty-lines"),
        pytest.param(
            [b"x" * (MAX_LINE_BYTES + 5)], [b"x" * MAX_LINE_BYTES, b"x" * 5], id="a-line-without-end"
        ),
        pytest.param([b"bar\r" * MAX_LINE_BYTES], [b"bar"], id="a-bar-without-end"),
    ],
)
def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    buffer = LineBuffer()
    assert [line for chunk in chunks for line in buffer.feed(chunk)] + buffer.flush() == lines


@given(st.lists(st.binary(max_size=50)))
def test_chunking_does_not_matter(chunks: list[bytes]) -> None:
    """However the pipe cuts the stream, the lines are the same."""
    whole, cut = LineBuffer(), LineBuffer()
    lines = [line for chunk in chunks for line in cut.feed(chunk)] + cut.flush()
    assert whole.feed(b"".join(chunks)) + whole.flush() == lines


TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
ValueError: bad
  value
"""
CHAINED = TRACEBACK + "\nDuring handling of the above exception, another exception occurred:\n\n" + (
    "Traceback (most recent call last):\n  File x\nRuntimeError: worse\n"
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "", id="silent"),
        pytest.param("one\ntwo\n\n  \n", "two", id="last-line-that-is-not-blank"),
        pytest.param(TRACEBACK, "ValueError: bad", id="traceback"),
        pytest.param(TRACEBACK + "[W socket] closed\n", "ValueError: bad", id="noise-after-it"),
        pytest.param(CHAINED, "RuntimeError: worse", id="chained"),
        pytest.param("Traceback (most recent call last):\n  File x\n", "File x", id="cut"),
        pytest.param("a\tb   c\n", "a b c", id="white-space"),
    ],
)
def test_message_of_standard_error(text: str, message: str) -> None:
    tail = ErrorTail()
    for line in text.encode().split(b"\n"):
        tail.add(line)
    assert tail.message() == message


def test_the_memory_for_errors_is_bounded() -> None:
    """A flood pushes out the oldest lines, never the last."""
    tail = ErrorTail()
    tail.add(b"Traceback (most recent call last):")
    for number in range(20000):
        tail.add(b"line %d" % number)
    assert tail.message() == "line 19999"
    tail.add(b"y" * (2 * KEEP_BYTES))
    assert tail.message().startswith("yyy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"message": {"message": "E: x", "extraInfo": {"timestamp": "1"}}}', "E: x", id="torch"),
        pytest.param('{"message": "E: x"}', "E: x", id="older"),
        pytest.param('{"message": {"message": "two\\nlines"}}', "two lines", id="one-line"),
        pytest.param('{"message": {"message": "\\ud800"}}', "?", id="lone-surrogate"),
        pytest.param('{"message": 3}', "", id="number"),
        pytest.param("[]", "", id="list"),
        pytest.param("{", "", id="cut"),
        pytest.param("", "", id="empty"),
    ],
)
def test_error_file(text: str, message: str) -> None:
    assert error_file_message(text) == message


def test_a_message_is_bounded() -> None:
    assert len(one_line(b"x" * 5000)) == 1000


@pytest.mark.parametrize(
    ("code", "said", "out_of_memory", "message"),
    [
        pytest.param(0, "", False, "", id="success"),
        pytest.param(1, "ValueError: x", False, "ValueError: x", id="said"),
        pytest.param(1, "", False, "ended with exit code 1 and no message", id="silent"),
        pytest.param(-9, "a warning from before", False, "ended by SIGKILL", id="killed"),
        pytest.param(
            -9,
            "",
            True,
            "ended by SIGKILL: the container ran out of memory. Raise spec.resources.memory",
            id="out-of-memory",
        ),
        pytest.param(-11, "", True, "ended by SIGSEGV", id="not-for-memory"),
        pytest.param(-6, "terminate called", False, "ended by SIGABRT: terminate called", id="aborted"),
        pytest.param(-63, "", False, "ended by signal 63", id="real-time"),
    ],
)
def test_exit_message(code: int, said: str, out_of_memory: bool, message: str) -> None:
    assert exit_message(code, said=said, out_of_memory=out_of_memory) == message
