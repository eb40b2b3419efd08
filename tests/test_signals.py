"""Ctrl-C at the worst moment: inside a callback, where Python prints an exception and drops it."""

import signal
import subprocess
import sys

import pytest

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


def said(callback):
    return subprocess.run([sys.executable, "-c", SCRIPT.format(callback=callback)], capture_output=True, text=True)


def test_an_interrupt_inside_a_callback_comes_again_without_a_traceback():
    done = said("os.kill(os.getpid(), signal.SIGINT)")
    assert done.stdout == "heard\n"
    assert done.returncode == 128 + signal.SIGINT
    assert done.stderr == "\nStopped. The same command goes on from what is saved.\n"


@pytest.mark.slow
def test_another_error_inside_a_callback_is_still_shown():
    done = said("1 / 0")
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == "slept on\n"
