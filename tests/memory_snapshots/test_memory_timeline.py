"""Lifetimes and live bytes of allocations, against a simulation that counts them."""

from hypothesis import given
from hypothesis import strategies as st
from snapshot_samples import Simulator, frames, training_step

from torch_spyre.memory_snapshots.sites import UNKNOWN, site_of, sites
from torch_spyre.memory_snapshots.snapshot import Frame, cards_of
from torch_spyre.memory_snapshots.timeline import timeline


def timeline_of(simulator, dropped=0):
    (card,) = cards_of(simulator.snapshot(dropped))
    return timeline(card)


@st.composite
def simulations(draw):
    """Draw a card whose few addresses are allocated and freed at random."""
    simulator = Simulator()
    for _ in range(draw(st.integers(1, 30))):
        address = 1000 * draw(st.integers(1, 4))
        if address in simulator.live:
            simulator.free(address)
        else:
            simulator.allocate(address, draw(st.integers(1, 900)), draw(st.integers(1, 3)))
    return simulator


@given(simulation=simulations())
def test_live_bytes_are_those_of_the_simulated_card(simulation):
    history = timeline_of(simulation)
    assert list(history.live_bytes) == simulation.live_bytes
    assert history.peak_bytes == max(simulation.live_bytes)
    for position, expected in enumerate(simulation.live_bytes):
        assert sum(entry.size for entry in history.live_at(position)) == expected


@given(simulation=simulations(), dropped=st.integers(0, 20))
def test_a_history_that_lacks_its_begin_has_the_same_bytes(simulation, dropped):
    # Between request and completion of a release whose allocation was dropped, all is known.
    dropped = min(dropped, len(simulation.events) - 1)
    history = timeline_of(simulation, dropped)
    assert list(history.live_bytes) == simulation.live_bytes[dropped:]


def test_releases_that_are_not_completed_end_a_lifetime_if_none_is_recorded():
    simulator = Simulator()
    simulator.allocate(64, 128)
    simulator.free(64)
    events = [event for event in simulator.events if event["action"] != "free_completed"]
    snapshot = {"segments": [], "device_traces": [events]}
    (card,) = cards_of(snapshot)
    assert timeline(card).live_bytes == (0, 128, 0)


def test_memory_that_was_allocated_before_the_history_is_live_from_the_begin():
    card = training_step()
    snapshot = {**card.snapshot(), "device_traces": []}
    (memory,) = cards_of(snapshot)
    history = timeline(memory)
    assert history.live_bytes == (3 << 20,)
    assert {entry.start for entry in history.lifetimes} == {-1}


def test_a_site_is_the_innermost_line_of_the_user():
    (card,) = cards_of(training_step().snapshot())
    history = timeline(card)
    entries = sites((entry.size, entry.stack) for entry in history.live_at(history.peak))
    assert [(site.location, site.bytes, site.count) for site in entries] == [
        ("/home/me/train.py:12 in step", 4 << 20, 1),
        ("/home/me/train.py:11 in step", 2 << 20, 1),
        ("/home/me/train.py:10 in step", 1 << 20, 1),
    ]
    inner = Frame("/env/lib/site-packages/torch/nn/linear.py", 1, "forward")
    assert site_of((inner,)) == str(inner)  # there is nothing better
    assert site_of((inner, Frame("<string>", 3, "<module>"))) == "<string>:3 in <module>"
    assert site_of(()) == UNKNOWN
    # Generated code is found by its name, wherever TORCHINDUCTOR_CACHE_DIR is.
    name = "c6bgrsvd3jxvjyfrvzzmmkvab6lcrjivsg7zdekljhc5zoqo5yor.py"
    generated = Frame(f"/my/cache/6b/{name}", 67, "call")
    user = Frame("/home/me/cat.py", 3, "step")
    assert site_of((generated, inner, user)) == str(user)
    # As in backward():
    assert site_of((inner, generated, inner)) == f"compiled graph, {generated}"
    assert frames(1)[0]["filename"] == inner.file
