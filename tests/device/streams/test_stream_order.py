"""Order and synchronization of work on one and on many streams."""

import random
import threading

import pytest
import torch
from stream_helpers import BIG

Event, Stream, stream = torch.spyre.Event, torch.spyre.Stream, torch.spyre.stream

pytestmark = pytest.mark.usefixtures("default_stream_stays_current")


# --- Order and asynchrony -------------------------------------------------------------------------


def test_query_is_true_for_every_stream_after_synchronize(pinned):
    streams = [Stream() for _ in range(4)]
    for synchronize in (torch.spyre.synchronize, torch.accelerator.synchronize):
        for one in streams:
            with one:
                pinned[0].to("spyre", non_blocking=True)
        synchronize()
        assert all(one.query() for one in streams)
    assert torch.spyre.default_stream().query()


def test_pinned_copies_return_before_they_are_done(pinned):
    card = torch.empty(BIG, dtype=torch.float16, device="spyre")
    back = torch.empty(BIG, dtype=torch.float16).pin_memory()
    seen_pending = {"to": False, "from": False}
    for _ in range(20):  # a host under load may be slower than the copy, but not every time
        card.copy_(pinned[0], non_blocking=True)
        seen_pending["to"] |= not torch.spyre.current_stream().query()
        torch.spyre.synchronize()
        back.copy_(card, non_blocking=True)
        seen_pending["from"] |= not torch.spyre.current_stream().query()
        torch.spyre.synchronize()
    assert seen_pending == {"to": True, "from": True}


def test_pageable_and_blocking_copies_are_done_when_they_return(pinned):
    pageable = torch.ones(BIG, dtype=torch.float16)
    card = torch.empty(BIG, dtype=torch.float16, device="spyre")
    for source, non_blocking in ((pageable, True), (pageable, False), (pinned[0], False)):
        card.copy_(source, non_blocking=non_blocking)
        assert torch.spyre.current_stream().query()
        torch.empty(BIG, dtype=torch.float16).copy_(card, non_blocking=True)
        assert torch.spyre.current_stream().query()


def test_work_of_one_stream_runs_in_the_order_it_was_submitted(pinned):
    card = torch.empty(BIG, dtype=torch.float16, device="spyre")
    back = [torch.empty(BIG, dtype=torch.float16).pin_memory() for _ in pinned]
    with Stream() as one:
        for source, target in zip(pinned, back, strict=True):
            card.copy_(source, non_blocking=True)
            target.copy_(card, non_blocking=True)
    one.synchronize()
    for source, target in zip(pinned, back, strict=True):
        assert torch.equal(source, target)


@pytest.mark.parametrize("how", ["wait_event", "event.wait", "wait_stream"])
def test_a_stream_that_waits_sees_the_work_of_the_other(pinned, how):
    producer, consumer = Stream(), Stream()
    for source in pinned * 3:
        card = torch.empty(BIG, dtype=torch.float16, device="spyre")
        back = torch.empty(BIG, dtype=torch.float16).pin_memory()
        with producer:
            card.copy_(source, non_blocking=True)
        if how == "wait_event":
            consumer.wait_event(producer.record_event())
        elif how == "event.wait":
            producer.record_event().wait(consumer)
        else:
            consumer.wait_stream(producer)
        with consumer:
            back.copy_(card, non_blocking=True)
        consumer.synchronize()
        assert torch.equal(back, source)


def test_an_event_records_the_current_stream_and_means_its_latest_record(pinned):
    card = torch.zeros(BIG, dtype=torch.float16, device="spyre")
    back = torch.empty(BIG, dtype=torch.float16).pin_memory()
    first, second, event = Stream(), Stream(), Event()
    event.record(first)
    with first:
        card.copy_(pinned[1], non_blocking=True)
        event.record()
    second.wait_event(event)
    with second:
        back.copy_(card, non_blocking=True)
    second.synchronize()
    assert torch.equal(back, pinned[1]) and event.query()


def test_waiting_for_an_event_that_was_never_recorded_is_no_wait():
    event = Event()
    assert event.query()
    event.synchronize()
    event.wait()
    one = Stream()
    one.wait_event(event)
    one.synchronize()
    assert one.query()


def test_tensors_may_be_freed_while_their_copies_are_queued(pinned):
    results = []
    with Stream() as one:
        for value in range(12):
            host = torch.full((1 << 18,), float(value), dtype=torch.float16).pin_memory()
            pinned[0].to("spyre", non_blocking=True)  # occupies the queue, and is freed immediately
            card = host.to("spyre", non_blocking=True)
            result = torch.empty(1 << 18, dtype=torch.float16).pin_memory()
            result.copy_(card, non_blocking=True)
            results.append(result)
            del host, card
            torch.full_like(result, -1.0).pin_memory()  # takes host memory that was freed
    one.synchronize()
    for value, result in enumerate(results):
        assert bool((result == value).all()), value


def test_record_stream_holds_memory_until_the_stream_is_done_with_it(pinned):
    def pending_sizes():
        blocks = [block for s in torch.spyre.memory_snapshot() for block in s["blocks"]]
        return {b["size"] for b in blocks if b["state"] == "active_pending_free"}

    one, size, was_held = Stream(), 128 * 12345, False
    for _ in range(20):  # a host under load may be slower than the copy, but not every time
        card = torch.empty(size, dtype=torch.int8, device="spyre")
        with one:
            pinned[0].to("spyre", non_blocking=True)
        card.record_stream(one)
        allocated = torch.spyre.memory_allocated()
        del card
        was_held |= size in pending_sizes()
        assert torch.spyre.memory_allocated() == allocated - size
        torch.spyre.synchronize()
        assert size not in pending_sizes()
    assert was_held


# --- Under load -----------------------------------------------------------------------------------


def test_more_work_than_a_queue_holds_is_all_done():
    results = []
    with Stream() as one:
        for value in range(3000):
            host = torch.full((8,), value, dtype=torch.int32).pin_memory()
            results.append(torch.empty(8, dtype=torch.int32).pin_memory())
            results[-1].copy_(host.to("spyre", non_blocking=True), non_blocking=True)
    one.synchronize()
    assert [int(result[3]) for result in results] == list(range(3000))


def test_threads_and_streams_under_load_give_correct_results():
    shared = [Stream(priority=-(index % 2)) for index in range(5)]
    wrong = []

    def work(number):
        choose = random.Random(number)
        for step in range(25):
            value = float(number * 100 + step)
            size = (choose.randint(1, 70), choose.randint(1, 200))
            host = torch.full(size, value).pin_memory()
            back = torch.empty(size).pin_memory()
            first, second = choose.sample(shared, 2)
            with first:
                card = host.to("spyre", non_blocking=True)
                copy = card.clone()
                event = first.record_event()
            second.wait_event(event)
            with second:
                back.copy_(copy.t().contiguous().t(), non_blocking=True)
                del card, copy
                second.synchronize()
            if not torch.equal(back, host):
                wrong.append((number, step))

    before = torch.spyre.memory_allocated()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert torch.spyre.memory_allocated() == before
