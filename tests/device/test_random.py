"""Generators of the card: seeds, offsets, states, and the draws of eager ops from them."""

import copy
import pickle
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from torch_spyre.testing.philox import blocks

pytestmark = [
    pytest.mark.usefixtures("kernels"),
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]

FP16 = torch.float16

DRAWS = {
    "rand": lambda device, **g: torch.rand(5, 33, device=device, **g),
    "randn": lambda device, **g: torch.randn(100, device=device, **g),
    "randn of a few": lambda device, **g: torch.randn(3, device=device, **g),
    "randn fp16": lambda device, **g: torch.randn(64, dtype=FP16, device=device, **g),
    "randint": lambda device, **g: torch.randint(-50, 1000, (77,), device=device, **g),
    "randperm": lambda device, **g: torch.randperm(50, device=device, **g),
    "normal_": lambda device, **g: torch.empty(70, device=device).normal_(2, 3, **g),
    "uniform_": lambda device, **g: torch.empty(70, device=device).uniform_(-1, 5, **g),
    "random_": lambda device, **g: torch.empty(70, dtype=torch.int32, device=device).random_(**g),
    "exponential_": lambda device, **g: torch.empty(70, device=device).exponential_(2, **g),
    "geometric_": lambda device, **g: torch.empty(70, device=device).geometric_(0.3, **g),
    "cauchy_": lambda device, **g: torch.empty(70, device=device).cauchy_(**g),
    "log_normal_": lambda device, **g: torch.empty(70, device=device).log_normal_(**g),
    "bernoulli_": lambda device, **g: torch.empty(70, device=device).bernoulli_(0.4, **g),
    "bernoulli": lambda device, **g: torch.bernoulli(torch.full((70,), 0.4, device=device), **g),
    "poisson": lambda device, **g: torch.poisson(torch.full((70,), 4.0, device=device), **g),
    "normal": lambda device, **g: torch.normal(torch.zeros(70, device=device), 2.0, **g),
    "multinomial": lambda device, **g: torch.multinomial(torch.ones(20, device=device), 9, **g),
    "multinomial with replacement": lambda device, **g: torch.multinomial(
        torch.arange(1.0, 21, device=device), 99, replacement=True, **g
    ),
}
DRAWS_WITHOUT_GENERATOR = {
    "rand_like": lambda device: torch.rand_like(torch.empty(70, device=device)),
    "randn_like": lambda device: torch.randn_like(torch.empty(5, 70, device=device)),
    "randint_like": lambda device: torch.randint_like(torch.empty(70, device=device), 9),
    "dropout": lambda device: F.dropout(torch.ones(300, device=device), 0.3, training=True),
    "dropout module": lambda device: torch.nn.Dropout(0.5)(torch.ones(300, device=device)),
    "alpha dropout": lambda device: F.alpha_dropout(torch.ones(99, device=device), training=True),
    "feature dropout": lambda device: F.dropout2d(torch.ones(4, 9, 2, 2, device=device), 0.5),
    "rrelu": lambda device: F.rrelu(-torch.ones(99, device=device), training=True),
    "gumbel_softmax": lambda device: F.gumbel_softmax(torch.zeros(4, 9, device=device), hard=True),
    "kaiming": lambda device: torch.nn.init.kaiming_uniform_(torch.empty(9, 7, device=device)),
    "truncated normal": lambda device: torch.nn.init.trunc_normal_(torch.empty(9, device=device)),
}


# --- Draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [*DRAWS.values(), *DRAWS_WITHOUT_GENERATOR.values()],
    ids=[*DRAWS, *DRAWS_WITHOUT_GENERATOR],
)
def test_equal_seeds_give_equal_draws_and_later_draws_differ(draw):
    torch.manual_seed(7)
    first = [draw("spyre").cpu() for _ in range(3)]
    torch.manual_seed(7)
    second = [draw("spyre").cpu() for _ in range(3)]
    assert all(map(torch.equal, first, second))
    assert len({tuple(drawn.flatten().tolist()) for drawn in first}) == 3


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_generator_draws_what_the_default_one_draws_and_leaves_it_alone(draw):
    generator = torch.Generator("spyre").manual_seed(11)
    torch.spyre.manual_seed(11)
    expected = [draw("spyre").cpu() for _ in range(2)]
    before = torch.spyre.get_rng_state()
    assert torch.equal(generator.get_state(), torch.Generator("spyre").manual_seed(11).get_state())
    assert all(torch.equal(draw("spyre", generator=generator).cpu(), drawn) for drawn in expected)
    assert torch.equal(torch.spyre.get_rng_state(), before)
    assert torch.equal(generator.get_state(), before)


def test_a_draw_advances_the_offset_by_a_block_whatever_its_size():
    generator = torch.Generator("spyre").manual_seed(1)
    for number, size in enumerate([(), (1,), (70, 130)]):
        assert generator.get_offset() == 4 * number
        torch.randn(size, device="spyre", generator=generator)
    torch.rand(0, device="spyre", generator=generator)
    assert generator.get_offset() == 12


def test_an_element_of_a_draw_depends_on_its_index_only():
    """Not on the shape, the strides or the number of elements."""
    draws = []
    for target in (
        torch.empty(7, 130, device="spyre"),
        torch.empty(7 * 130, device="spyre"),
        torch.empty(130, 7, device="spyre").t(),
        torch.empty(7, 260, device="spyre")[:, ::2],
        torch.empty(8, 7, 130, device="spyre")[3],
    ):
        torch.spyre.manual_seed(3)
        draws.append(target.normal_().flatten().cpu())
    torch.spyre.manual_seed(3)
    draws.append(torch.empty(2000, device="spyre").normal_()[:910].cpu())
    assert all(torch.equal(drawn, draws[0]) for drawn in draws[1:])


def test_draws_in_other_dtypes_are_the_rounded_ones_of_float32():
    draws = []
    for dtype in (torch.float32, FP16, torch.bfloat16):
        torch.spyre.manual_seed(3)
        draws.append(torch.randn(300, device="spyre", dtype=dtype))
    for drawn in draws[1:]:
        assert torch.equal(draws[0].to(drawn.dtype), drawn)


def test_draws_on_the_card_and_on_the_cpu_do_not_disturb_each_other():
    torch.manual_seed(3)
    cpu, card = torch.rand(4), torch.rand(4, device="spyre")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4, device="spyre"), card)
    F.dropout(torch.ones(9, device="spyre"))
    assert torch.equal(torch.rand(4), cpu)


def test_a_thread_that_draws_on_the_card_does_not_disturb_the_cpus_sequence():
    ones = torch.ones(500, device="spyre")
    thread = threading.Thread(target=lambda: [F.dropout(ones, 0.5) for _ in range(300)])
    torch.manual_seed(3)
    thread.start()
    drawn = []
    while thread.is_alive():
        drawn.append(torch.rand(8))
    torch.manual_seed(3)
    assert torch.equal(torch.stack(drawn), torch.stack([torch.rand(8) for _ in drawn]))


def test_dropout_in_eval_mode_does_not_advance_the_generator():
    state = torch.spyre.get_rng_state()
    ones = torch.ones(30, device="spyre")
    assert torch.equal(F.dropout(ones, 0.5, training=False).cpu(), torch.ones(30))
    assert torch.equal(torch.spyre.get_rng_state(), state)


def test_a_failing_draw_leaves_the_generators_as_they_were():
    torch.manual_seed(5)
    before = torch.get_rng_state(), torch.spyre.get_rng_state()
    for draw in (
        lambda: torch.bernoulli(torch.full((3,), 2.0, device="spyre")),
        lambda: torch.empty(3, device="spyre").normal_(0, -1),
        lambda: torch.randint(5, 5, (3,), device="spyre"),
    ):
        with pytest.raises(RuntimeError):
            draw()
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(torch.spyre.get_rng_state(), before[1])


# --- Seeds and states -----------------------------------------------------------------------------


def test_set_get_and_draw_seeds():
    torch.spyre.manual_seed(41)
    assert torch.spyre.initial_seed() == 41
    torch.spyre.manual_seed(42, "spyre:0")
    assert torch.spyre.initial_seed(0) == 42 == torch.spyre.initial_seed("spyre")
    torch.spyre.manual_seed_all(43)
    assert torch.spyre.initial_seed() == 43
    torch.spyre.seed()
    first = torch.spyre.initial_seed()
    torch.spyre.seed_all()
    assert len({43, first, torch.spyre.initial_seed()}) == 3


def test_seeding_all_cards_does_not_seed_the_cpu():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    torch.spyre.seed_all()
    assert torch.initial_seed() == 5
    assert torch.equal(torch.rand(3), expected)
    assert torch.spyre.initial_seed() != 5


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, -1])
def test_all_bits_of_a_seed_and_of_an_offset_are_used(seed):
    generator = torch.Generator("spyre").manual_seed(seed)
    assert generator.initial_seed() == seed % 2**64
    for offset in (0, 4, 2**34, 2**63):
        generator.set_offset(offset)
        number = offset // 4
        key, counter = (
            (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF),
            (number & 0xFFFFFFFF, number >> 32),
        )
        words = blocks((np.arange(5), 0, *counter), key)[0]
        expected = (words & np.uint64(0xFFFFFF)).astype(np.float32) * 2.0**-24
        drawn = torch.rand(5, device="spyre", generator=generator)
        assert drawn.tolist() == expected.tolist()
        assert generator.get_offset() == offset + 4


@pytest.mark.parametrize("seed", [2**64, "seven", None, 1.5j])
def test_seed_out_of_64_bits_raises(seed):
    with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)):
        torch.spyre.manual_seed(seed)


@pytest.mark.parametrize("drawn", [0, 1, 3, 625])
def test_restored_state_continues_the_sequence(drawn):
    torch.spyre.manual_seed(1)
    torch.rand(drawn, device="spyre")
    torch.randn(3, device="spyre")
    state = torch.spyre.get_rng_state()
    following = [torch.randn(3, device="spyre") for _ in range(2)]
    assert torch.spyre.get_rng_state().tolist() != state.tolist()
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.spyre.get_rng_state(), state)
    for expected in following:
        assert torch.equal(torch.randn(3, device="spyre"), expected)


def test_a_state_is_the_seed_and_the_offset():
    torch.spyre.manual_seed(0x1234)
    for state in (torch.spyre.get_rng_state("spyre:0"), torch.Generator("spyre").get_state()):
        assert state.device.type == "cpu" and state.dtype == torch.uint8 and len(state) == 16
    torch.rand(3, device="spyre")
    assert torch.spyre.get_rng_state().tolist() == [0x34, 0x12, *[0] * 6, 4, *[0] * 7]
    (only,) = torch.spyre.get_rng_state_all()
    assert torch.equal(only, torch.spyre.get_rng_state(0))
    torch.spyre.manual_seed(1)
    torch.spyre.set_rng_state_all([only])
    assert torch.spyre.initial_seed() == 0x1234


@pytest.mark.parametrize(
    "garbage",
    [
        torch.full((16,), 255, dtype=torch.uint8),
        torch.zeros(15, dtype=torch.uint8),
        torch.zeros(0, dtype=torch.uint8),
        torch.zeros(16, dtype=torch.int8),
        torch.zeros(16),
        torch.get_rng_state(),
        torch.zeros(32, dtype=torch.uint8)[::2],
        b"state",
        None,
    ],
    ids=["ones", "short", "empty", "int8", "float", "cpu", "strided", "bytes", "none"],
)
def test_invalid_state_raises_and_changes_nothing(garbage):
    before = torch.spyre.get_rng_state()
    generator = torch.Generator("spyre")
    with pytest.raises((RuntimeError, TypeError)):
        torch.spyre.set_rng_state(garbage)
    with pytest.raises((RuntimeError, TypeError)):
        generator.set_state(garbage)
    assert torch.equal(torch.spyre.get_rng_state(), before)
    assert generator.initial_seed() == 67280421310721


# --- Generators -----------------------------------------------------------------------------------


def test_a_new_generator_has_torchs_default_seed_and_is_on_the_card():
    generator = torch.Generator(device="spyre")
    assert generator.device == torch.device("spyre", 0)
    assert generator.initial_seed() == torch.Generator().initial_seed() == 67280421310721
    seed = generator.seed()
    assert seed == generator.initial_seed() != 67280421310721
    assert generator.manual_seed(9) is generator and generator.initial_seed() == 9


def test_a_generators_state_can_be_carried_to_another():
    first, second = torch.Generator("spyre").manual_seed(4), torch.Generator("spyre")
    torch.rand(9, device="spyre", generator=first)
    second.set_state(first.get_state())
    copy = first.clone_state()
    draws = [torch.rand(9, device="spyre", generator=g) for g in (first, second, copy)]
    assert torch.equal(draws[0], draws[1]) and torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_a_generator_can_be_copied_and_pickled(clone):
    generator = torch.Generator("spyre").manual_seed(4)
    torch.randn(3, device="spyre", generator=generator)
    twin = clone(generator)
    assert twin.device == generator.device and twin.initial_seed() == 4
    draws = [torch.randn(9, device="spyre", generator=g) for g in (generator, twin)]
    assert torch.equal(*draws)


def test_an_offset_selects_a_draw_and_is_a_multiple_of_4():
    generator = torch.Generator("spyre").manual_seed(1)
    draws = [torch.rand(3, device="spyre", generator=generator) for _ in range(3)]
    generator.set_offset(4)
    assert torch.equal(torch.rand(3, device="spyre", generator=generator), draws[1])
    with pytest.raises(RuntimeError, match="multiple of 4"):
        generator.set_offset(6)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_generator_of_another_device_raises(draw):
    with pytest.raises(RuntimeError, match="spyre.*generator|generator.*spyre"):
        draw("spyre", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="cpu.*generator|generator.*cpu"):
        draw("cpu", generator=torch.Generator("spyre"))


def test_generator_of_a_missing_card_raises():
    with pytest.raises(RuntimeError, match="1"):
        torch.Generator("spyre:1")


def test_fork_rng_restores_the_state_after_an_error():
    before = torch.spyre.get_rng_state()
    with pytest.raises(KeyError), torch.random.fork_rng(device_type="spyre"):
        torch.manual_seed(77)
        torch.rand(5, device="spyre")
        assert not torch.equal(torch.spyre.get_rng_state(), before)
        raise KeyError
    assert torch.equal(torch.spyre.get_rng_state(), before)


def test_threads_with_a_shared_generator_draw_each_value_once():
    generator = torch.Generator("spyre").manual_seed(1)
    drawn, lock = [], threading.Lock()

    def work():
        for _ in range(50):
            value = torch.rand(4, device="spyre", generator=generator).tolist()
            with lock:
                drawn.append(tuple(value))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = torch.Generator("spyre").manual_seed(1)
    assert sorted(drawn) == sorted(
        tuple(torch.rand(4, device="spyre", generator=alone).tolist()) for _ in range(200)
    )


@pytest.mark.parametrize("arguments", [(), (5, None)])
def test_random_of_int64_draws_from_the_integers_that_the_card_stores(arguments):
    drawn = torch.empty(2000, dtype=torch.int64, device="spyre").random_(*arguments)
    assert drawn.min() >= (arguments[0] if arguments else 0)
    # The chance that no draw is in the upper tenth is below 10 ** -91.
    assert drawn.max() > 0.9 * 2**31
