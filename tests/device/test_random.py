"""Random ops on the card give the CPU's sequence for the same seed, from separate generators."""

import copy
import pickle
import threading

import pytest
import torch
import torch.nn.functional as F

pytestmark = [
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
    # Results are rounded differently on both devices, but the argmax is equal.
    "gumbel_softmax": lambda device: F.gumbel_softmax(torch.zeros(4, 9, device=device), hard=True),
    "kaiming": lambda device: torch.nn.init.kaiming_uniform_(torch.empty(9, 7, device=device)),
    "truncated normal": lambda device: torch.nn.init.trunc_normal_(torch.empty(9, device=device)),
}


def assert_same_draw(on_card, on_cpu):
    assert on_card.device.type == "spyre" and on_card.dtype == on_cpu.dtype
    # A float16 draw is rounded to the card's format, as any copy is.
    assert torch.equal(on_card.cpu(), on_cpu.to("spyre").cpu())


# --- The same sequence as the CPU -----------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [*DRAWS.values(), *DRAWS_WITHOUT_GENERATOR.values()],
    ids=[*DRAWS, *DRAWS_WITHOUT_GENERATOR],
)
def test_manual_seed_gives_the_card_the_sequence_of_the_cpu(draw):
    torch.manual_seed(7)
    on_cpu = [draw("cpu") for _ in range(3)]
    torch.manual_seed(7)
    on_card = [draw("spyre") for _ in range(3)]
    for card, cpu in zip(on_card, on_cpu, strict=True):
        assert_same_draw(card, cpu)
    assert not torch.equal(on_cpu[0], on_cpu[1])


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_generator_of_the_card_gives_the_sequence_of_one_of_the_cpu(draw):
    ours, cpus = torch.Generator("spyre").manual_seed(11), torch.Generator().manual_seed(11)
    default = torch.spyre.get_rng_state()
    for _ in range(3):
        assert_same_draw(draw("spyre", generator=ours), draw("cpu", generator=cpus))
    assert torch.equal(torch.spyre.get_rng_state(), default)


def test_the_published_draw_is_the_cpus_within_the_rounding_of_the_format():
    torch.manual_seed(0)
    cpu = torch.randn(64, dtype=FP16)
    torch.manual_seed(0)
    card = torch.randn(64, dtype=FP16, device="spyre").cpu()
    assert torch.allclose(card, cpu, rtol=2**-10, atol=0)


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


def test_a_failing_draw_leaves_the_cpus_generator_as_it_was():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError):
        torch.bernoulli(torch.full((3,), 2.0, device="spyre"))
    assert torch.equal(torch.get_rng_state(), before)


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
def test_any_64_bit_seed_is_taken_as_on_the_cpu(seed):
    torch.manual_seed(seed)
    cpu = torch.rand(5)
    torch.spyre.manual_seed(seed)
    assert torch.equal(torch.rand(5, device="spyre").cpu(), cpu)


@pytest.mark.parametrize("seed", [2**64, "seven", None, 1.5j])
def test_seed_out_of_64_bits_raises(seed):
    with pytest.raises((RuntimeError, ValueError, TypeError, OverflowError)):
        torch.spyre.manual_seed(seed)


@pytest.mark.parametrize("drawn", [0, 1, 3, 623, 624, 625])
def test_restored_state_continues_the_sequence(drawn):
    torch.spyre.manual_seed(1)
    torch.rand(drawn, device="spyre")
    torch.randn(3, device="spyre")  # leaves a normal sample in store
    state = torch.spyre.get_rng_state()
    following = [torch.randn(3, device="spyre") for _ in range(2)]
    assert torch.spyre.get_rng_state().tolist() != state.tolist()
    torch.spyre.set_rng_state(state)
    assert torch.equal(torch.spyre.get_rng_state(), state)
    for expected in following:
        assert torch.equal(torch.randn(3, device="spyre"), expected)


def test_a_state_is_5016_bytes_that_start_with_the_seed():
    torch.spyre.manual_seed(0x1234)
    for state in (torch.spyre.get_rng_state("spyre:0"), torch.Generator("spyre").get_state()):
        assert state.device.type == "cpu" and state.dtype == torch.uint8 and len(state) == 5016
    assert torch.spyre.get_rng_state()[:8].tolist() == [0x34, 0x12, 0, 0, 0, 0, 0, 0]
    (only,) = torch.spyre.get_rng_state_all()
    assert torch.equal(only, torch.spyre.get_rng_state(0))
    torch.spyre.manual_seed(1)
    torch.spyre.set_rng_state_all([only])
    assert torch.spyre.initial_seed() == 0x1234


@pytest.mark.parametrize(
    "garbage",
    [
        torch.zeros(5016, dtype=torch.uint8),
        torch.full((5016,), 255, dtype=torch.uint8),
        torch.zeros(5015, dtype=torch.uint8),
        torch.zeros(0, dtype=torch.uint8),
        torch.zeros(5016, dtype=torch.int8),
        torch.zeros(5016),
        torch.get_rng_state(),
        torch.zeros(5016 * 2, dtype=torch.uint8)[::2],
        b"state",
        None,
    ],
    ids=["zeros", "ones", "short", "empty", "int8", "float", "cpu", "strided", "bytes", "none"],
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


def test_a_generator_uses_no_offset():
    generator = torch.Generator("spyre")
    for use in (lambda: generator.set_offset(4), generator.get_offset):
        with pytest.raises(RuntimeError, match="does not use offset"):
            use()


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
    cpus = torch.Generator().manual_seed(1)
    assert sorted(drawn) == sorted(
        tuple(torch.rand(4, generator=cpus).tolist()) for _ in range(200)
    )


@pytest.mark.parametrize("arguments", [(), (5, None)])
def test_random_of_int64_draws_from_the_integers_that_the_card_stores(arguments):
    drawn = torch.empty(2000, dtype=torch.int64, device="spyre").random_(*arguments)
    assert drawn.min() >= (arguments[0] if arguments else 0)
    # The chance that no draw is in the upper tenth is below 10 ** -91.
    assert drawn.max() > 0.9 * 2**31
