"""What scripts write for other trackers, the module's own twins of a run's methods, the logging handler, the environment."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import threading

import pytest

import gputop
from gputop.cli import runs as commands
from gputop.tracking.handler import MESSAGES_PER_S
from gputop.tracking.reader.runs import RunReader
from tests.tracking.kit import Home, eventually, home, read_all

assert home

WANDB_SCRIPT = """
import gputop as wandb
assert wandb.run is None
wandb.login(key="x")
run = wandb.init(project="p", entity="team", name="n", notes="why", job_type="train", tags=["a"], group="g", reinit=True,
    config={"lr": 0.1}, save_code=True, mode="online", anonymous="allow", settings=wandb.Settings(start_method="thread"))
assert wandb.run is run and wandb.run.name == "n" and wandb.run.id
wandb.config.update({"epochs": 3}, allow_val_change=True)
wandb.config.batch_size = 8
assert wandb.config.lr == wandb.config["lr"] == 0.1 and wandb.config.get("none") is None
wandb.define_metric("epoch")
wandb.define_metric("val/*", step_metric="epoch", summary="min")
wandb.define_metric("acc", "epoch", goal="maximize")
class Model:
    def parameters(self): return []
wandb.watch(Model(), log="all", log_freq=10)
for step in range(3):
    wandb.log({"train/loss": 1.0 / (step + 1), "epoch": step}, step=step, commit=True)
table = wandb.Table(columns=["a"]); table.add_data(1)
run.log({"table": table, "image": wandb.Image(None, caption="c"), "h": wandb.Histogram([1]), "left": 2.0}, step=3)
wandb.log({"plot": wandb.plot.line(table, "a", "b")})
artifact = wandb.Artifact("model", type="model"); artifact.add_file("x"); run.log_artifact(artifact); wandb.save("*.pt")
wandb.alert(title="t", text="x", level=wandb.AlertLevel.WARN, wait_duration=300)
wandb.summary["best"] = 0.5
wandb.run.summary.update({"last": 0.25})
wandb.unwatch()
wandb.finish(exit_code=0, quiet=True)
assert wandb.run is None
"""


def test_a_script_written_for_wandb_runs(home: Home) -> None:
    code, _, err = home.run(WANDB_SCRIPT)
    assert code == 0, err
    said = read_all(home.archives()[0])
    assert said.series["train/loss"] == [(0, 1.0), (1, 0.5), (2, 1 / 3)]
    assert set(said.series) == {"train/loss", "epoch", "left"}
    run = home.only_run()
    assert (run.name, run.project, run.state) == ("n", "p", "finished")
    assert run.config == {"lr": 0.1, "epochs": 3, "batch_size": 8}
    facts = run.ranks[0].facts
    assert facts["summary"] == {"best": 0.5, "last": 0.25}
    assert facts["metrics"]["acc"] == {"goal": "max", "unit": None, "step_metric": "epoch"}
    assert facts["metrics"]["val/*"]["step_metric"] == "epoch"
    assert (facts["alert"]["title"], facts["alert"]["level"], facts["group"], facts["tags"]) == ("t", "warning", "g", ["a"])
    told = [line for line in err.splitlines() if "is not kept" in line]
    assert {line.split()[1] for line in told} == {"Table", "Image", "Histogram", "plot", "Artifact", "log_artifact", "save"}
    assert len(told) == 7, "each is told once"


def test_names_without_a_substitute_are_missing() -> None:
    for name in ("Api", "controller", "sweep", "no_such_name"):
        with pytest.raises(AttributeError, match=name):
            getattr(gputop, name)
    with pytest.raises(AttributeError, match="no_such_name"):
        gputop.init(mode="disabled").no_such_name  # noqa: B018


def test_the_module_has_a_runs_methods(home: Home) -> None:
    with gputop.init(name="twins") as run:
        gputop.config["lr"] = 0.1
        gputop.summary["best"] = 1
        gputop.define_metric("loss", goal="min")
        gputop.text("hello", "info")
        gputop.alert("careful", "very")
        with gputop.phase("data"):
            pass
        gputop.log(loss=1.0)
        assert gputop.run is run
        assert gputop.config is run.config
        assert gputop.summary is run.summary
    other = gputop.init(name="other")
    assert gputop.config is other.config
    other.finish()
    assert gputop.run is None
    first = next(path for path in home.archives() if run.id in str(path))
    said = read_all(first)
    assert set(said.series) == {"loss", "phase/data"}
    assert [event["message"] for kind, _, event in said.events if kind == 3] == ["hello", "careful: very"]
    for name in ("config", "summary", "run", "adapters", "GputopHandler", "phase"):
        assert name in dir(gputop)


MORE_OF_WANDB = """
import gputop as wandb, sys
assert wandb.__version__
run = wandb.init(id=wandb.util.generate_id(), name="n", tags=("a",), notes="why", job_type="train", group="g", project="p")
assert (run.tags, run.notes, run.job_type, run.group, run.step, run.resumed) == (("a",), "why", "train", "g", 0, False)
run.tags += ("b",)
run.notes = "because"
assert run.url is run.entity is run.sweep_id is None and run.offline and run.start_time > 0 and run.starting_step == 0
assert not run.settings.anything is None
if run.url: raise SystemExit
wandb.config.setdefaults({"lr": 0.1, "seed": 1})
del wandb.config["seed"]
assert wandb.config.pop("seed", 7) == 7 and wandb.config.as_dict() == {"lr": 0.1}
with wandb.Artifact("a", type="t").new_file("x") as file:
    file.write("y")
table = wandb.Table(columns=["a"])
assert len(table.data) == 0 and list(table.data) == [] and table
wandb.termlog("hello"); wandb.termwarn("careful"); wandb.log_code("."); wandb.mark_preempting(); wandb.use_model("m")
wandb.log({"loss": 1.0}, commit=False)
wandb.log({"acc": 0.5})
assert run.step == 1
wandb.log({"loss": 0.5})
run.log(flag=True, big=10**400, loss=0.25)
"""


def test_more_of_wandb_s_interface_works(home: Home) -> None:
    code, _, err = home.run(MORE_OF_WANDB)
    assert code == 0, err
    assert "gputop: hello\n" in err
    assert "metric 'big'" in err
    assert "Traceback" not in err
    said = read_all(home.archives()[0]).series
    assert said == {"loss": [(0, 1.0), (1, 0.5), (2, 0.25)], "acc": [(0, 0.5)], "flag": [(2, 1.0)]}
    run = home.only_run()
    facts = run.ranks[0].facts
    assert (facts["tags"], facts["notes"], facts["job_type"], facts["group"]) == (["a", "b"], "because", "train", "g")
    assert run.config == {"lr": 0.1, "seed": None}


REST_OF_WANDB = """
import gputop as wandb, typing
wandb.require("core"); wandb.require(experiment="service")
try:
    raise ValueError
except (wandb.Error, wandb.errors.CommError, wandb.errors.UsageError, wandb.CommError):
    raise SystemExit("it is none of these")
except ValueError:
    pass
assert issubclass(wandb.Error, Exception)
Run: typing.Optional[wandb.sdk.wandb_run.Run] = wandb.init(project="p", id="x")
run = Run
print(isinstance(run, wandb.sdk.wandb_run.Run), run.get_url(), run.path, run.get_project_url())
class Media(wandb.sdk.data_types.base_types.media.Media):
    pass
Media()
table = wandb.data_types.Table(columns=["a"]); table.add_data(1)
wandb.log({"masks": wandb.Classes([{"id": 1, "name": "cat"}]), "a": 1, "loss": 0.5})
callback = wandb.integration.sb3.WandbCallback(verbose=2)
api = wandb.apis.public.Api()
for step in range(20):
    run.log({"loss": 0.25, "late": step})
run.log({"a": 2})
assert run.summary["a"] == 2 and run.summary.loss == 0.25 and wandb.summary.get("late") == 19 and "a" in run.summary
assert run.summary.get("none") is None and run.summary.get("none", 3) == 3 and "none" not in run.summary
try:
    run.summary["none"]
except KeyError:
    pass
else:
    raise SystemExit("there is none")
run.summary["a"] = 7
run.log({"a": 3})
assert run.summary["a"] == 7, "what the script wrote stays"
run.display(); run.link_artifact(None, "x"); run.status()
wandb.join()
assert run.summary["loss"] == 0.25 and wandb.run is None
wandb.teardown()
"""


NEVER_KEPT = """
import gputop as wandb
assert wandb.restore("early.pt") is None
run = wandb.init(project="p", name="n")
run.log({"a": 1.0}, 3, True, True)
wandb.log({"a": 2.0}, 4, True, False)
run.define_metric("a", "b", True, False, "min", "minimize", True)
wandb.define_metric("a", "b", True, False, "min", "minimize", True)
run.alert("t", "x", "INFO", 30); wandb.alert("t", "x", wandb.AlertLevel.INFO, 30)
assert run.restore("model.pt") is None and run.restore("model.pt", replace=True) is None
assert run.project_name() == "p"
run.link_model("x", "y"); wandb.link_model(path="x"); run.pin_config_keys(["a"]); run.detach()
wandb.box3d(center=(0, 0, 0)); wandb.plot_table("v", wandb.Table(), {}, {}); wandb.EvalTable(columns=["a"]).add_data(1)
wandb.JoinedTable(None, None, "a"); wandb.Bokeh(None)
artifact = wandb.Artifact("a", type="t"); artifact.ttl = wandb.ArtifactTTL.INHERIT
callback = wandb.keras.WandbCallback(monitor="loss"); wandb.sklearn.plot_roc([], []); wandb.xgboost.wandb_callback()
wandb.tensorboard.patch(root_logdir="x"); wandb.gym.monitor()
for name in ("Api", "agent", "controller", "sweep"):
    try:
        getattr(wandb, name)
    except AttributeError as error:
        assert f"wandb.{name}" in str(error) and "docs/migrating.md" in str(error), error
    else:
        raise SystemExit(f"{name} would return nothing")
    assert not hasattr(wandb, name)
run.finish(0, True); wandb.finish(0, True)
assert wandb.init(mode="disabled").log({"a": 1.0}, 3, True, True) is None
wandb.log({"a": 1.0}, 3, True, True)
"""


@pytest.mark.parametrize("thread", ["1", "0"])
def test_what_cannot_be_kept_of_wandb_s_interface_is_said_once_and_ends_no_script(home: Home, thread: str) -> None:
    code, out, err = home.run(NEVER_KEPT, GPUTOP_THREAD=thread)
    assert (code, out) == (0, ""), err
    told = [line.split()[1] for line in err.splitlines()]
    assert len(told) == len(set(told)), err
    assert {"restore", "link_model", "box3d", "plot_table", "EvalTable", "plot_roc", "WandbCallback"} <= set(told)
    assert read_all(home.archives()[0]).series == {"a": [(3, 1.0), (4, 2.0)]}


@pytest.mark.parametrize("thread", ["1", "0"])
def test_unsupported_calls_of_wandb_s_interface_end_no_script(home: Home, thread: str) -> None:
    code, out, err = home.run(REST_OF_WANDB, GPUTOP_THREAD=thread)
    assert (code, out) == (0, "False None p/x None\n"), err
    told = sorted(line.split()[1] for line in err.splitlines())
    assert told == ["Api", "Classes", "Media", "Table", "WandbCallback", "link_artifact"], err
    assert home.only_run().ranks[0].facts["summary"] == {"a": 7}


def test_a_summary_has_the_last_value_of_many_segments(home: Home) -> None:
    with gputop.init(name="long") as run:
        run.log(old=1.0)
        for step in range(5000):
            run.log(loss=float(step), step=step)
        run.log({f"m{number}": float(number) for number in range(700)})
        assert (run.summary["loss"], run.summary["old"], run.summary["m699"]) == (4999.0, 1.0, 699.0)
        for step in range(100_000):
            run.log(loss=float(step), step=step)
        assert run.summary["loss"] == 99_999.0
        assert run.summary.get("old") is None, "it has left the memory"
    assert gputop.init(mode="disabled").summary.get("loss") is None


@pytest.mark.parametrize(("tags", "recorded"), [("5", ["5"]), ("'a'", ["a"]), ("None", None), ("{'a': 1}", ["a"])])
def test_any_tags_do(home: Home, tags: str, recorded: list[str] | None) -> None:
    code, _, err = home.run(f"import gputop; gputop.init(tags={tags}).log(loss=1.0)")
    assert (code, err) == (0, "")
    assert home.only_run().ranks[0].facts.get("tags") == recorded


def test_a_new_id_starts_a_run_and_resume_continues_one(home: Home) -> None:
    script = (
        "import gputop; run = gputop.init(id='mine'{}); [run.log(loss=float(n)) for n in range(4)]; print(run.id, run.step)"
    )
    assert home.run(script.format("")) == (0, "mine 4\n", "")
    assert home.run(script.format(", resume='allow'")) == (0, "mine 8\n", "")
    assert home.run(script.format(", resume='must'") + "; import os, signal; os.kill(os.getpid(), signal.SIGKILL)")[0] == -9
    assert home.run(script.format(", resume='must'")) == (0, "mine 16\n", ""), "the killed one's records are in its ring"
    assert home.run(script.format("")) == (0, "mine-2 4\n", ""), "a new run does not go on with an old one"
    steps = [step for path in home.archives() if path.parent.name == "mine" for step, _ in read_all(path).series["loss"]]
    assert sorted(steps) == list(range(16))


def test_two_ranks_of_one_id_are_one_run(home: Home) -> None:
    script = "import gputop; gputop.init(id='mine').log(loss=1.0)"
    assert home.run(script)[0] == 0  # an earlier one, of rank 0 alone: it must not set the two apart
    for rank in ("0", "1"):
        assert home.run(script, RANK=rank, WORLD_SIZE="2")[0] == 0
    assert {path.parent.name for path in home.archives()} == {"mine"}


def test_an_id_is_resumed_where_wandb_would(home: Home) -> None:
    script = "import gputop, sys\ngputop.init(id='mine', resume=sys.argv[1] if sys.argv[1] != 'none' else None).log(loss=1.0)"
    for resume in ("allow", "must", "none", "never"):
        assert home.run(script, resume)[0] == 0
    by_run: dict[str, int] = {}
    for path in home.archives():
        by_run[path.parent.name] = by_run.get(path.parent.name, 0) + 1
    assert by_run == {"mine": 2, "mine-2": 1, "mine-3": 1}


def test_wandb_s_variables_name_what_gputop_s_do_not(home: Home) -> None:
    script = "import gputop; gputop.init().log(loss=1.0)"
    theirs = {"WANDB_NAME": "n", "WANDB_PROJECT": "p", "WANDB_RUN_GROUP": "g"}
    assert home.run(script, **theirs)[0] == 0
    run = home.only_run()
    assert (run.name, run.project, run.ranks[0].facts["group"]) == ("n", "p", "g")
    ours = {"GPUTOP_NAME": "own", "GPUTOP_PROJECT": "ours", "GPUTOP_GROUP": "all", "GPUTOP_RUN_ID": "second"}
    assert home.run(script, **theirs, **ours)[0] == 0
    archive = next(path for path in home.archives() if path.parent.name == "second")
    said = [(event["name"], event["value"]) for kind, _, event in read_all(archive).events if kind == 4]
    card = dict(said)["run"]
    assert (card["name"], card["project"], dict(said)["group"]) == ("own", "ours", "all")


@pytest.mark.parametrize(("wanted", "kib"), [("512", 512), ("1", None), ("none", 1024)])
def test_the_ring_s_size_may_be_chosen(home: Home, wanted: str, kib: int | None) -> None:
    script = (
        "import gputop, mmap; run = gputop.init(); run.log(loss=1.0);"
        " print(run.journal.through or run.journal.capacity // 1024)"
    )
    code, out, _ = home.run(script, GPUTOP_RING_KB=wanted)
    assert (code, out) == (0, f"{kib or True}\n")


def test_log_messages_become_text(home: Home) -> None:
    logger = logging.getLogger("test-handler")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    handler = gputop.GputopHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
    try:
        logger.info("before any run")
        gputop.init(name="logged")
        logger.warning("loss is %s", 0.5)
        logger.debug("below the level")
        handler._second = -1
        for number in range(3 * MESSAGES_PER_S):
            logger.info("%d", number)
        handler._second = -1
        logger.error("after")
        gputop.finish()
    finally:
        logger.removeHandler(handler)
    texts = [(event["level"], event["message"]) for kind, _, event in read_all(home.archives()[0]).events if kind == 3]
    assert texts[0] == ("warning", "test-handler: loss is 0.5")
    assert texts[-1] == ("error", "test-handler: after")
    assert "were dropped" in texts[-2][1]
    assert MESSAGES_PER_S < len(texts) < 3 * MESSAGES_PER_S, "a log in an inner loop does not fill the journal"


def test_the_environment_is_read_at_init_and_not_at_import(home: Home) -> None:
    script = """
import gputop, os, sys, threading
os.environ.update(GPUTOP_DIR=sys.argv[1], GPUTOP_PROJECT="p", GPUTOP_NAME="n", GPUTOP_RUN_ID="r", GPUTOP_GROUP="g",
    GPUTOP_THREAD="0", GPUTOP_RANKS="all", RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", GPUTOP_SILENT="1")
run = gputop.init()
run.log(loss=1.0); run.log(bad=[1, 2])
assert threading.active_count() == 1
os.environ.update(GPUTOP_RANKS="0")
assert gputop.init().disabled
os.environ.update(RANK="0", GPUTOP_MODE="disabled")
assert gputop.init().disabled
"""
    elsewhere = home.state / "elsewhere"
    code, _, err = home.run(script, str(elsewhere))
    assert (code, err) == (0, "")
    assert not home.archives()
    os.environ["GPUTOP_DIR"] = str(elsewhere)
    home.runs = elsewhere / "runs"
    run = home.only_run()
    (rank,) = run.ranks
    assert (run.run_id, run.name, run.project) == ("r", "n", "p")
    assert (rank.rank, rank.world_size, rank.facts["group"], rank.metrics) == (1, 2, "g", {"loss": 1.0})
    assert not home.rings()


def test_a_name_that_is_given_later_is_what_readers_show(home: Home) -> None:
    script = """
import gputop as wandb
run = wandb.init(project="p", name="first", config={"lr": 0.1})
run.log({"loss": 1.0})
run.name = f"second-{run.id}"
print(run.name)
for number in range(20_000):
    run.log({"loss": 0.5})
run.name = "third"
run.finish()
run.name = "too late"
"""
    code, out, err = home.run(script, GPUTOP_RING_KB="64")
    assert (code, err) == (0, "")
    run = home.only_run()
    assert out == f"second-{run.run_id}\n"
    assert (run.name, run.project, run.state) == ("third", "p", "finished")
    assert run.command
    assert "third" in commands.list_text((run,))


def test_a_name_that_changes_is_followed_while_the_run_lives(home: Home) -> None:
    reader = RunReader(home.runs)
    run = gputop.init(name="first")
    run.log(loss=1.0)
    assert [found.name for found in reader.poll().runs] == ["first"]
    run.name = "second"
    run.log(loss=0.9)
    assert eventually(lambda: [found.name for found in reader.poll().runs] == ["second"], "the new name")
    for name in ("a", "b", "c") * 2000:
        run.name = name
    run.log(loss=0.8)
    assert eventually(lambda: [found.name for found in reader.poll().runs] == ["c"], "the last of many names")
    gputop.finish()
    assert [found.name for found in RunReader(home.runs).poll().runs] == ["c"]
    disabled = gputop.init(mode="disabled")
    disabled.name = None
    assert disabled.name == ""
    reader.close()


def test_a_configuration_is_saved_as_a_dictionary_and_its_copies_are_not_recorded(home: Home) -> None:
    run = gputop.init(name="saved", config={"lr": 0.1, "layers": [1, 2]})
    run.summary["best"] = 0.5
    assert pickle.loads(pickle.dumps([run.config, run.summary])) == [{"lr": 0.1, "layers": [1, 2]}, {"best": 0.5}]
    assert type(pickle.loads(pickle.dumps(run.config))) is dict, "a checkpoint is read where there is no gputop"
    for copied in (copy.copy(run.config), copy.deepcopy(run.config)):
        copied.lr = 0.2
        assert (copied.lr, copied.layers, run.config.lr) == (0.2, [1, 2], 0.1)
    assert copy.deepcopy(run.config).layers is not run.config.layers
    run.config["lock"] = threading.Lock()
    with pytest.raises(TypeError, match="lock"):
        copy.deepcopy(run.config)
    run.finish()
    assert home.only_run().config["lr"] == 0.1
