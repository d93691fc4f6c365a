"""Locks of a process that may fork, as torch's DataLoader does for its workers."""

from __future__ import annotations

import os
import threading


def fork_safe_lock() -> threading.Lock:
    """One that is free in a forked process, though another thread of the parent held it: forking waits for it."""
    lock = threading.Lock()
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
