"""Trainer, accelerate, pipelines and device maps of Hugging Face on the card, against the CPU."""

import pytest
import torch

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

pytestmark = pytest.mark.filterwarnings("ignore")
# Differences of float32 losses and weights after a few steps: the order of sums differs.
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def tiny_model():
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=128,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=2,
        )
    )


def examples(count):
    tokens = torch.randint(3, 128, (count, 8), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in tokens]


@pytest.fixture
def use(monkeypatch):
    """Return a function that makes accelerate use a device, as a new process would."""

    def use(device):
        accelerate.state.AcceleratorState._reset_state(True)
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", device)

    yield use
    accelerate.state.AcceleratorState._reset_state(True)


@pytest.fixture
def saved(tmp_path):
    tiny_model().save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def trainer(folder):
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=3, save_steps=2, per_device_train_batch_size=2,
        gradient_accumulation_steps=2, learning_rate=1e-3, report_to=[], disable_tqdm=True, seed=0,
    )  # fmt: skip
    return transformers.Trainer(
        tiny_model(), arguments, train_dataset=examples(12), eval_dataset=examples(4)
    )


def test_trainer_trains_evaluates_and_resumes_on_the_card(use, tmp_path):
    use("cpu")
    expected = trainer(tmp_path / "cpu")
    expected_loss = expected.train().training_loss
    use("spyre")
    actual = trainer(tmp_path / "card")
    assert actual.train().training_loss == pytest.approx(expected_loss, rel=1e-4)
    assert {tensor.device.type for tensor in actual.model.parameters()} == {"spyre"}
    losses = [run.evaluate()["eval_loss"] for run in (actual, expected)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    resumed = trainer(tmp_path / "card")
    resumed.train(resume_from_checkpoint=str(tmp_path / "card" / "checkpoint-2"))
    for one, other in zip(actual.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one.cpu(), other.cpu())


def train_with_accelerate(precision, folder=None):
    accelerator = accelerate.Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
    model = tiny_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(examples(8), batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        assert batch["input_ids"].device.type == accelerator.device.type
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
    if folder is not None:
        before = [tensor.detach().cpu().clone() for tensor in model.parameters()]
        accelerator.save_state(folder)
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.zero_()
        accelerator.load_state(folder)
        for one, other in zip(before, model.parameters(), strict=True):
            assert torch.equal(one, other.cpu())
    return accelerator.device.type, losses


def test_accelerate_trains_saves_and_loads_on_the_card(use, tmp_path):
    use("cpu")
    _, expected = train_with_accelerate("no")
    use("spyre")
    device, actual = train_with_accelerate("no", tmp_path)
    assert device == "spyre"
    assert actual == pytest.approx(expected, rel=1e-4)


def test_accelerate_trains_in_bfloat16(use):
    use("cpu")
    _, expected = train_with_accelerate("no")
    use("spyre")
    # Half a unit in the last place of bfloat16, which has 8 bits of significand.
    assert train_with_accelerate("bf16") == ("spyre", pytest.approx(expected, rel=2.0**-8))


def test_accelerate_refuses_float16_autocast_and_says_so(use):
    use("spyre")
    with pytest.raises(ValueError, match="fp16 mixed precision requires"):
        accelerate.Accelerator(mixed_precision="fp16")


@pytest.mark.parametrize("place", ["spyre", "spyre:0", {"": "spyre"}], ids=str)
def test_device_map_loads_on_the_card(saved, place):
    model = transformers.LlamaForCausalLM.from_pretrained(saved, device_map=place)
    assert {str(tensor.device) for tensor in model.parameters()} == {"spyre:0"}
    prompt = torch.tensor([[5, 6, 7]])
    options = {"max_new_tokens": 3, "do_sample": False}
    actual = model.generate(prompt.to("spyre"), **options)
    assert torch.equal(actual.cpu(), tiny_model().eval().generate(prompt, **options))


def test_device_map_splits_a_model_between_card_and_cpu(saved):
    modules = ("model.embed_tokens", "model.layers", "model.norm", "model.rotary_emb", "lm_head")
    places = dict.fromkeys(modules, "spyre") | {"model.embed_tokens": "cpu", "lm_head": "cpu"}
    model = transformers.LlamaForCausalLM.from_pretrained(saved, device_map=places)
    prompt = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        actual, expected = model(prompt).logits, tiny_model().eval()(prompt).logits
    torch.testing.assert_close(actual.cpu(), expected, **CLOSE)


def test_pipeline_runs_on_the_card_in_half_precision(saved):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: index for index, word in enumerate(["<pad>", "<s>", "</s>", "<unk>"])}
    words |= {f"w{index}": index for index in range(4, 128)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(saved)
    pipe = transformers.pipeline(
        "text-generation", model=str(saved), device="spyre", dtype=torch.float16
    )
    assert (pipe.device.type, pipe.model.device.type) == ("spyre", "spyre")
    assert pipe.model.dtype is torch.float16
    before = torch.spyre.counters()["launches"]
    (answer,) = pipe("w5 w6 w7", max_new_tokens=2, do_sample=False)
    assert answer["generated_text"].startswith("w5 w6 w7")
    assert torch.spyre.counters()["launches"] > before
