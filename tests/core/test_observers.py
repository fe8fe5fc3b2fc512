"""Observers, each on a thread of its own."""

import asyncio
import queue
import threading
import time

import pytest

from ace.core import (
    Event,
    ObserverThread,
    observers as observers_module,
)
from ace.core.observers import _deliver


def event(n=0):
    return Event(kind="run_started", seq=n, run_id="r", correlation_id="t")


def test_a_relay_without_events_has_no_thread():
    relay = ObserverThread(lambda e: None)
    ObserverThread.flush_all([relay])
    asyncio.run(ObserverThread.aflush_all([relay]))
    assert relay._thread is None


def test_a_relay_drops_what_its_observer_cannot_take(monkeypatch):
    monkeypatch.setattr(observers_module, "MAX_BACKLOG", 2)
    go, seen = threading.Event(), []
    relay = ObserverThread(lambda e: (go.wait(5), seen.append(e.seq)), grace=0.01)
    for n in range(50):
        relay.send(event(n))
    ObserverThread.flush_all([relay])
    go.set()
    end = time.monotonic() + 5
    while not relay._given_up.is_set() and time.monotonic() < end:
        time.sleep(0.01)
    assert len(seen) < 50
    relay.send(event(99))
    relay.grace = 5
    ObserverThread.flush_all([relay])
    assert seen[-1] == 99  # it recovers


def test_a_relay_counts_what_its_observer_raises_and_waits_async():
    def broken(e):
        raise KeyboardInterrupt

    relay = ObserverThread(broken)
    relay.send(event())
    asyncio.run(ObserverThread.aflush_all([relay]))
    assert relay.failures == 1


def test_a_relay_ends_its_thread_with_itself():
    import gc

    relay = ObserverThread(lambda e: None)
    relay.send(event())
    ObserverThread.flush_all([relay])
    thread = relay._thread
    del relay
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()


def test_events_without_an_owner_are_not_delivered():
    backlog = queue.Queue()
    backlog.put(event())
    backlog.put(event(1))
    _deliver(backlog, lambda: None)
    assert backlog.qsize() == 1


@pytest.mark.parametrize(
    "wait", [ObserverThread.flush_all, lambda relays: asyncio.run(ObserverThread.aflush_all(relays))]
)
def test_hung_observers_cost_one_period_of_grace_together(wait):
    leave, seen = threading.Event(), []
    relays = [ObserverThread(lambda e: leave.wait(5), grace=0.2) for _ in range(5)]
    relays.append(ObserverThread(lambda e: seen.append(e.seq)))
    for relay in relays:
        relay.send(event())
    started = time.monotonic()
    wait(relays)
    assert time.monotonic() - started < 0.8
    assert seen == [0]
    leave.set()


@pytest.mark.parametrize(
    "wait", [ObserverThread.flush_all, lambda relays: asyncio.run(ObserverThread.aflush_all(relays))]
)
def test_what_others_send_meanwhile_is_not_waited_for(wait):
    seen, over = [], threading.Event()
    relay = ObserverThread(lambda e: (time.sleep(0.01), seen.append(e.seq)), grace=1.0)

    def send_on():
        while not over.wait(0.005):
            relay.send(event(1))

    other = threading.Thread(target=send_on)
    other.start()
    try:
        for turn in range(3):
            relay.send(event(100 + turn))
            wait([relay])
            assert 100 + turn in seen
    finally:
        over.set()
        other.join()


@pytest.mark.parametrize(
    "wait", [ObserverThread.flush_all, lambda relays: asyncio.run(ObserverThread.aflush_all(relays))]
)
def test_an_observer_that_has_caught_up_is_waited_for_again(wait):
    seen = []
    relay = ObserverThread(lambda e: (time.sleep(0.3 if e.seq == 0 else 0.005), seen.append(e.seq)), grace=0.1)
    relay.send(event())
    wait([relay])
    assert seen == []
    relay.grace = 20.0
    time.sleep(0.5)
    for number in range(1, 6):
        relay.send(event(number))
    wait([relay])
    assert seen == [0, 1, 2, 3, 4, 5]


def test_a_full_backlog_is_waited_for(monkeypatch):
    monkeypatch.setattr("ace.core.observers.MAX_BACKLOG", 5)
    go, seen = threading.Event(), []
    relay = ObserverThread(lambda e: (go.wait(20), seen.append(e.seq)), grace=20.0)
    for number in range(50):
        relay.send(event(number))
    go.set()
    ObserverThread.flush_all([relay])
    assert 5 <= len(seen) <= 6
