"""Ctrl-C."""

import subprocess
import sys

from command import heed_ctrl_c


def test_ctrl_c_arrives_even_when_python_drops_it_inside_a_finalizer():
    program = (
        "import os, signal, sys, time\n"
        "import ace.cli\n"
        "class Freed:\n"
        "    def __del__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(.01)\n"
        "@ace.cli.app.command()\n"
        "def long():\n"
        "    Freed()\n"
        "    time.sleep(60)\n"
        "sys.argv = ['ace', 'long']\n"
        "ace.cli.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=50, preexec_fn=heed_ctrl_c
    )
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr.strip() == "interrupted; everything committed so far is kept"
