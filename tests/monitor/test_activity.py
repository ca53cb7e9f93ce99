"""The activity between two samples, from counters that tests choose."""

from fractions import Fraction

import pytest
from monitor_files import POWER

from torch_spyre.cards import load_card
from torch_spyre.errors import CardDescriptionError
from torch_spyre.monitor import Sample, activity
from torch_spyre.monitor.power import power_watts, temperature_celsius
from torch_spyre.monitor.published_card import PowerModel, PublishedCard, published_card
from torch_spyre.monitor.sample import Identity
from torch_spyre.monitor.segment import NO_WORK, CardCounters, Segment
from torch_spyre.monitor.utilization import Utilization
from torch_spyre.testing.cards import load_changed_card

MODEL = PowerModel(**POWER)
CARD = PublishedCard(name="a card", clock_ghz=1.5, power=MODEL)
SECOND = 10**9


def counters(index=0, *, second=0, running=(), finished=(), **values):
    values.setdefault("allocated_bytes", 128)
    return CardCounters(
        index=index,
        total_bytes=values.pop("total_bytes", 1000),
        read_ns=second * SECOND,
        peak_bytes=values.pop("peak_bytes", values["allocated_bytes"]),
        running=NO_WORK._replace(**dict(running)),
        finished=NO_WORK._replace(**dict(finished)),
        **values,
    )


def sample(second, **cards_of_processes):
    """Return a sample of processes p1, p2, ... with these counters."""
    segments = {}
    for name, cards in cards_of_processes.items():
        pid = int(name[1:])
        segments[Identity(1, pid, 9)] = Segment(pid, 9, 1, CARD, tuple(cards))
    return Sample(second * SECOND, segments)


def only_card(before, after):
    (card,) = activity(before, after)
    return card


def test_utilization_is_the_time_at_peak_rate_over_the_device_time_that_passed():
    before = counters(end_ps=1000, finished={"pt_ps": 100, "ddr_ps": 5, "cores_ps": 300})
    finished = {"pt_ps": 150, "ddr_ps": 105, "cores_ps": 400, "ddr_read_bytes": 400}
    after = counters(second=1, end_ps=1200, finished=finished)
    card = only_card(sample(0, p1=[before]), sample(1, p1=[after]))
    # The card's time went on by 200 ps, of which its cores worked for 100.
    assert card.window.utilization == Utilization(pt=0.25, ddr=0.5)
    assert card.window.gigabytes_per_second(card.window.amounts.ddr_read_bytes) == 2000
    assert card.processes[0].window.utilization == card.window.utilization


def test_nothing_happens_without_work():
    card = only_card(sample(0, p1=[counters(end_ps=9)]), sample(1, p1=[counters(end_ps=9)]))
    assert card.window.utilization == Utilization() and card.window.busy == 0
    assert card.window.gigabytes_per_second(100) == 0
    assert card.watts == POWER["idle"]


def test_work_that_outlasts_the_interval_shows_its_own_utilization():
    running = {"cores_ps": 1000, "pt_ps": 900}
    before = counters(is_executing=True, executed_ns=0, running=running)
    after = counters(second=1, is_executing=True, executed_ns=SECOND, running=running)
    card = only_card(sample(0, p1=[before]), sample(1, p1=[after]))
    assert card.window.utilization.pt == 0.9 and card.window.busy == 1


def test_finished_work_counts_and_not_what_is_being_executed():
    after = counters(
        second=1,
        end_ps=100,
        is_executing=True,
        running={"cores_ps": 9999, "pt_ps": 9999},
        finished={"cores_ps": 100, "pt_ps": 10},
    )
    card = only_card(sample(0, p1=[counters()]), sample(1, p1=[after]))
    assert card.window.utilization.pt == 0.1


def test_work_that_lies_before_the_end_of_other_work_counts_with_its_own_time():
    # Another stream had finished work that ends later in device time.
    before = counters(end_ps=5000)
    after = counters(second=1, end_ps=5000, finished={"cores_ps": 100, "pt_ps": 50})
    card = only_card(sample(0, p1=[before]), sample(1, p1=[after]))
    assert card.window.utilization.pt == 0.5


def test_shares_stay_between_0_and_1_whatever_the_counters_are():
    before = counters(end_ps=100, executed_ns=0, finished={"sfp_ps": 10**19, "lx_ps": 3})
    after = counters(
        second=1, end_ps=101, executed_ns=5 * SECOND, finished={"pt_ps": 10**19, "cores_ps": 1}
    )
    card = only_card(sample(0, p1=[before]), sample(1, p1=[after]))
    assert card.window.utilization == Utilization(pt=1) and card.window.busy == 1
    card = only_card(sample(0, p1=[after]), sample(1, p1=[before]))
    assert card.window.busy == 0 and min(vars(card.window.utilization).values()) >= 0


def test_busy_is_the_share_of_the_time_of_the_host():
    before = counters(second=10, executed_ns=2 * SECOND)
    after = counters(second=14, executed_ns=3 * SECOND)
    assert only_card(sample(10, p1=[before]), sample(14, p1=[after])).window.busy == 0.25


def test_processes_on_cards_of_the_same_index_are_summed_with_their_device_times():
    before = sample(0, p1=[counters()], p2=[counters()])
    first = counters(
        second=1,
        end_ps=300,
        executed_ns=SECOND // 2,
        allocated_bytes=256,
        finished={"pt_ps": 300, "cores_ps": 300},
    )
    second = counters(second=1, end_ps=100, finished={"cores_ps": 100}, total_bytes=2000)
    card = only_card(before, sample(1, p1=[first], p2=[second]))
    assert [process.pid for process in card.processes] == [1, 2]
    assert (card.allocated_bytes, card.total_bytes) == (384, 2000)
    assert card.window.utilization.pt == 0.75  # 300 of 400 ps
    assert card.window.busy == 0.5  # of the busiest
    assert [process.window.utilization.pt for process in card.processes] == [1, 0]


def test_a_process_is_listed_at_the_cards_that_it_has_used():
    unused = counters(1, allocated_bytes=0)
    freed = counters(2, allocated_bytes=0, peak_bytes=128)
    cards = activity(sample(0), sample(1, p1=[counters(0), unused, freed]))
    assert [len(card.processes) for card in cards] == [1, 0, 1]
    assert [card.index for card in cards] == [0, 1, 2] and all(card.is_open for card in cards)


def test_a_process_that_started_between_the_samples_counts_from_its_start():
    after = counters(second=1, end_ps=100, executed_ns=SECOND, finished={"pt_ps": 50})
    card = only_card(sample(0), sample(1, p1=[after]))
    assert card.window.utilization.pt == 0.5 and card.window.busy == 1


def test_a_process_that_ended_is_not_shown():
    assert activity(sample(0, p1=[counters()]), sample(1)) == ()


# --- Power ----------------------------------------------------------------------------------------


def test_power_is_linear_from_idle_to_the_sum_of_the_units():
    assert power_watts(MODEL, Utilization()) == POWER["idle"]
    assert power_watts(MODEL, Utilization(pt=0.5, ddr=0.25)) == 15 + 16 + 2
    assert power_watts(MODEL, Utilization(1, 1, 1, 1, 1)) == POWER["board"]
    assert temperature_celsius(MODEL, 50) == 50


def test_power_never_exceeds_the_board_power():
    model = MODEL.model_copy(update={"pt": 500.0})
    assert power_watts(model, Utilization(pt=1)) == POWER["board"]


@pytest.mark.parametrize("name", ["spyre", "ktir-cpu"])
def test_cards_draw_from_idle_to_board_power(name):
    card = load_card(name)
    model = published_card(card).power
    assert card.power.board_watts == 75  # documented
    idle, full = power_watts(model, Utilization()), power_watts(model, Utilization(1, 1, 1, 1, 1))
    assert 0 < idle < full <= card.power.board_watts
    sources = {source.entry: source.source for source in card.sources}
    assert sources["power.board_watts"] == "documented"
    entries = [f"power.{name}" for name in type(card.power).model_fields if name != "board_watts"]
    assert all(sources[entry].startswith("assumed: ") for entry in entries)


def test_units_that_draw_more_than_the_board_power_are_rejected(tmp_path):
    with pytest.raises(CardDescriptionError, match="76.0 W, more than board_watts"):
        load_changed_card(tmp_path / "card.yaml", {"power.idle_watts": 16})


def test_processes_publish_their_own_card(tmp_path):
    card = load_changed_card(tmp_path / "card.yaml", {"power.idle_watts": 5})
    published = published_card(card)
    assert published.power.idle == 5 and published.clock_ghz == float(Fraction(3, 2))
    assert PublishedCard.model_validate_json(published.model_dump_json()) == published
    assert len(published.model_dump_json()) < 984  # the space in the file
