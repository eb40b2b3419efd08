"""Ctrl-C at the worst moment: inside a callback, where Python prints an exception and drops it."""

import os
import signal
import subprocess
import sys

import pytest

from fairweight import signals

SCRIPT = """
import os, signal, sys, time, weakref
from fairweight import signals

class Thing:
    pass

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is born deaf to it
signals.mind()
thing = Thing()
watched = weakref.ref(thing, lambda _: {callback})
try:
    del thing
    time.sleep(3)
    print("slept on")
except KeyboardInterrupt:
    print("heard")
    signals.stop()
"""


def said(callback, **env):
    script = [sys.executable, "-c", SCRIPT.format(callback=callback)]
    return subprocess.run(script, capture_output=True, text=True, env={**os.environ, **env})


def test_an_interrupt_inside_a_callback_comes_again_without_a_traceback():
    done = said("os.kill(os.getpid(), signal.SIGINT)")
    assert done.stdout == "heard\n"
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == signals.STOPPED


def test_under_torchrun_the_first_process_alone_says_so():
    done = said("os.kill(os.getpid(), signal.SIGINT)", RANK="1")
    assert (done.stdout, done.stderr, done.returncode) == ("heard\n", "", 128 + signal.SIGINT)


@pytest.mark.slow
def test_another_error_inside_a_callback_is_still_shown():
    done = said("1 / 0")
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == "slept on\n"


COMMAND = """
import atexit, os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
from fairweight import __main__, signals

def kill(number=signal.SIGTERM):
    os.kill(os.getpid(), number)

def twice():
    try:
        kill()
    finally:
        kill(signal.SIGINT)

def swallowed():
    try:
        kill()
    except KeyboardInterrupt:
        raise ImportError("what some libraries make of it") from None

{before}
__main__._command = {command}
__main__.main()
{after}
"""
NOTHING = "lambda: None"


@pytest.mark.parametrize(
    ("before", "command", "after"),
    [
        ("kill()", NOTHING, ""),
        ("", "kill", ""),
        ("", "swallowed", ""),
        ("", "twice", ""),
        ("", "sys.exit", "pass"),
        ("", NOTHING, "kill()"),
        ("atexit.register(kill)", NOTHING, ""),
        ("atexit.register(kill, signal.SIGINT)", "kill", ""),
    ],
    ids=["before", "within", "swallowed", "twice", "none", "after", "at-exit", "at-exit-again"],
)
def test_the_first_signal_decides_the_status_wherever_it_comes(before, command, after):
    script = COMMAND.format(before=before, command=command, after=after)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    stopped = command != "sys.exit"
    assert done.returncode == stopped * (128 + signal.SIGTERM)
    assert done.stderr == stopped * signals.STOPPED


LINE_BY_LINE = """
import os, signal, sys
from fairweight import signals

signal.signal(signal.SIGINT, signal.default_int_handler)

def status(which, first, second):
    left = which
    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename != signals.__file__ or frame.f_code.co_name == "mind_before_commands":
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), first)
            if left == -2 and second:
                os.kill(os.getpid(), second)
        return trace
    child = os.fork()
    if not child:
        os.close(2)
        signals.mind_before_commands()
        sys.settrace(trace)
        signals.run_command(lambda: None)
        os._exit(0 if left > 0 else 3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

for second in (0, signal.SIGINT):
    found, which = [], 1
    while (ended := status(which, signal.SIGTERM, second)):
        found.append(ended)
        which += 1
    print(len(found) > 4, set(found))
"""


def test_a_signal_at_any_line_of_the_frame_around_a_command_has_its_own_status():
    done = subprocess.run([sys.executable, "-c", LINE_BY_LINE], capture_output=True, text=True)
    assert done.stdout == "True {143}\n" * 2, done.stderr
