"""What a main thread does, by stacks as people's programs have them: innermost call first."""

from __future__ import annotations

import pytest

from gputop.whereabouts.activities import doing
from gputop.whereabouts.records import Activity, Call, Doing

SITE = "/opt/venv/lib/python3.11/site-packages/"
PYTHON = "/opt/python/lib/python3.11/"
MAIN = Call("/home/ann/train.py", 90, "<module>")
LOOP = Call("/home/ann/train.py", 60, "main")
MODULE = [Call(f"{SITE}torch/nn/modules/module.py", 1700, name) for name in ("_call_impl", "_wrapped_call_impl")]
LINEAR = Call(f"{SITE}torch/nn/modules/linear.py", 125, "forward")
BACKWARD = [
    Call(f"{SITE}torch/autograd/graph.py", 800, "_engine_run_backward"),
    Call(f"{SITE}torch/autograd/__init__.py", 350, "backward"),
    Call(f"{SITE}torch/_tensor.py", 600, "backward"),
]
STEP = [
    Call(f"{SITE}torch/optim/adam.py", 240, "step"),
    Call(f"{SITE}torch/optim/optimizer.py", 480, "wrapper"),
]
LOADER = [
    Call(f"{SITE}torch/utils/data/_utils/fetch.py", 52, "<listcomp>"),
    Call(f"{SITE}torch/utils/data/dataloader.py", 700, "__next__"),
]
COLLECTIVE = Call(f"{SITE}torch/distributed/distributed_c10d.py", 2800, "all_reduce")


def own(line: int, function: str, is_generator: bool = False) -> Call:
    return Call("/home/ann/lib/parts.py", line, function, is_generator)


@pytest.mark.parametrize(
    ("inner", "activity"),
    [
        ([LINEAR, *MODULE], "forward"),
        ([LINEAR, *MODULE, own(5, "forward"), *MODULE], "forward"),
        (BACKWARD, "backward"),
        ([LINEAR, *MODULE, *BACKWARD], "backward"),  # activation checkpointing computes forward again
        (STEP, "optimizer"),
        ([LINEAR, *MODULE, own(8, "closure"), *STEP], "forward"),
        (LOADER, "data"),
        ([own(12, "__getitem__"), *LOADER], "data"),
        ([LINEAR, *MODULE, own(12, "__getitem__"), *LOADER], "data"),  # an encoder in the data set
        ([COLLECTIVE], "collective"),
        ([COLLECTIVE, own(31, "average_gradients")], "collective"),
        ([own(14, "encode_batch")], "data"),
        ([LINEAR, *MODULE, own(14, "encode_batch")], "forward"),  # a VAE's
        ([Call(f"{SITE}torchaudio/transforms/_transforms.py", 110, "forward"), *MODULE, own(3, "features")], "data"),
        ([Call(f"{SITE}PIL/Image.py", 900, "resize"), own(3, "read")], "data"),
        ([own(7, "sentences", is_generator=True)], "data"),
        ([own(7, "<genexpr>", is_generator=True)], "other"),
        ([LINEAR, *MODULE, own(7, "outputs_of", is_generator=True)], "forward"),
        ([own(7, "roc_auc")], "metrics"),
        ([Call(f"{SITE}sklearn/metrics/_ranking.py", 500, "roc_auc_score"), own(7, "report")], "metrics"),
        ([Call(f"{SITE}torchmetrics/metric.py", 300, "forward"), *MODULE], "metrics"),
        ([LINEAR, *MODULE, own(40, "validate")], "evaluation"),
        ([LINEAR, *MODULE, own(70, "generate")], "generation"),
        ([LINEAR, *MODULE, own(5, "forward"), *MODULE, own(70, "write_story")], "generation"),
        ([LINEAR, *MODULE, Call(f"{SITE}transformers/generation/utils.py", 2800, "_sample"), own(9, "preview")], "generation"),
        ([LINEAR, *MODULE, own(70, "generate"), own(40, "validate")], "evaluation"),
        ([LINEAR, *MODULE, own(70, "generate_noise")], "forward"),
        ([own(70, "generate")], "other"),  # it may make data
        ([own(70, "generate_text"), *LOADER], "data"),
        ([own(14, "encode_batch"), own(70, "generate")], "data"),
        ([*LOADER, own(40, "evaluate")], "evaluation"),
        ([LINEAR, *MODULE, Call(f"{SITE}transformers/trainer.py", 4300, "evaluation_loop")], "evaluation"),
        ([Call(f"{SITE}torch/serialization.py", 850, "save")], "checkpoint"),
        ([Call(f"{SITE}torch/serialization.py", 1400, "load")], "other"),
        ([own(9, "save_checkpoint")], "checkpoint"),
        ([Call(f"{SITE}gymnasium/core.py", 300, "step"), own(22, "play")], "environment"),
        ([LINEAR, *MODULE, own(22, "collect_rollouts")], "environment"),
        ([Call(f"{SITE}torch/_dynamo/convert_frame.py", 900, "_compile"), *MODULE], "forward"),
        ([Call(f"{SITE}torch/_inductor/compile_fx.py", 900, "compile_fx"), own(2, "warm_up")], "compile"),
        (
            [
                Call(f"{SITE}torch/utils/data/__init__.py", 3, "<module>"),
                Call("<frozen importlib._bootstrap>", 241, "_call_with_frames_removed"),
            ],
            "import",
        ),
        (
            [
                Call(f"{SITE}torch/_dynamo/__init__.py", 3, "<module>"),
                Call("<frozen importlib._bootstrap>", 241, "_call_with_frames_removed"),
                Call(f"{SITE}torch/optim/adam.py", 40, "__init__"),
            ],
            "import",
        ),
        ([*BACKWARD, own(3, "run"), Call("<frozen importlib._bootstrap>", 241, "_call_with_frames_removed")], "backward"),
        ([Call(f"{PYTHON}subprocess.py", 550, "run"), own(7, "percent_used")], "wait"),
        ([Call(f"{PYTHON}subprocess.py", 550, "run"), own(7, "decode_audio")], "data"),
        ([Call(f"{PYTHON}urllib/request.py", 200, "urlopen"), own(7, "post")], "wait"),
        ([Call(f"{SITE}wandb/sdk/wandb_run.py", 200, "log"), own(7, "report")], "report"),
        ([LINEAR, *MODULE, own(7, "log_images")], "report"),
        ([Call(f"{PYTHON}shutil.py", 200, "copyfile"), own(7, "mirror")], "files"),
        ([Call(f"{PYTHON}json/encoder.py", 200, "_iterencode_dict"), own(7, "mirror")], "files"),
        ([Call(f"{PYTHON}gzip.py", 200, "read"), own(7, "mirror")], "other"),
        ([Call(f"{PYTHON}gzip.py", 200, "write"), own(7, "save_checkpoint")], "checkpoint"),
        ([own(7, "export_vectors")], "files"),
        ([Call(f"{SITE}torch/cuda/memory.py", 170, "empty_cache")], "memory"),
        ([Call(f"{SITE}torch/cuda/memory.py", 170, "memory_allocated")], "other"),
        ([own(7, "total_variation")], "other"),
        ([], "other"),
    ],
)
def test_an_activity_is_seen_in_the_calls(inner: list[Call], activity: Activity) -> None:
    assert doing([*inner, LOOP, MAIN]).activity == activity


def test_the_innermost_line_of_the_user_s_own_code_is_named() -> None:
    assert doing([LINEAR, *MODULE, own(5, "forward"), LOOP, MAIN]) == Doing("forward", "parts.py:5", "forward")
    assert doing([*BACKWARD, LOOP, MAIN]) == Doing("backward", "train.py:60", "main")
    assert doing(LOADER) == Doing("data"), "none of it is on the stack"
    inner = [own(8, "<genexpr>", is_generator=True), own(7, "macro")]
    assert doing([*inner, LOOP, MAIN]) == Doing("other", "parts.py:7", "macro"), "it is that of the function"


@pytest.mark.parametrize(
    ("text", "activity"),
    [
        ("gc.collect()", "memory"),
        ("time.sleep(2)", "wait"),
        ("requests.post(URL, json=row)", "wait"),
        ("pickle.dump(state, f)", "files"),
        ("agent.save_replay_buffer(path)", "files"),
        ("np.savez_compressed(path, obs=self.obs)", "files"),
        ("x = torch.tensor([images[k].tolist() for k in chosen], dtype=torch.float32).to(device)", "data"),
        ("batch = torch.stack([torch.from_numpy(a) for a in rows])", "data"),
        ("clip = np.load(self.paths[i])['x']", "data"),
        ("picture = Image.open(path).convert('RGB')", "data"),
        ("rows = [json.loads(line) for line in lines[a:b]]", "data"),
        ("best = torch.tensor(0.0)", "other"),
        ("weights = torch.tensor([0.2, 0.8])", "other"),
        ("state = np.loader", "other"),
        ("log.append(loss.tolist())", "other"),
        ("self.buffer.save(path)", "files"),
        ("saved = self.savings(x)", "other"),
        ("writer.add_histogram(name, p, step)", "report"),
        ("auc = fast_auroc(scores, labels)", "metrics"),
        ("loss = loss.item()", "other"),
        ("gc.collected += 1", "other"),
        ("w -= lr * w.grad / dist.get_world_size()", "optimizer"),
        ("p.data.add_(p.grad, alpha=-lr)", "optimizer"),
        ("w.grad = None", "optimizer"),
        ("p.grad /= world", "optimizer"),
        ("print(loss.grad_fn, opt.gradients, grad)", "other"),
        ("norm = p.grad.norm()", "other"),
        ("g = torch.func.grad(f)(x) - 1", "other"),
        ("x -= jax.grad(loss)(x)", "other"),
        ("if p.grad == 0:", "other"),
        (None, "other"),
    ],
)
def test_a_line_says_what_functions_in_c_do(text: str | None, activity: Activity) -> None:
    assert doing([LOOP, MAIN], text) == Doing(activity, "train.py:60", "main", text)
    assert doing([*BACKWARD, LOOP, MAIN], text).activity == "backward", "the calls say it"


def test_a_place_is_a_line_with_what_it_says() -> None:
    assert Doing("wait", "train.py:60", "main", "time.sleep(2)").place == "train.py:60 in main: `time.sleep(2)`"
    assert (Doing("wait", "train.py:60").place, Doing("wait").place) == ("train.py:60", "")
