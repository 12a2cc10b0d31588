"""A run in an object that a script copies, saves or sends to another process, as trackers allow."""

from __future__ import annotations

import pytest

from tests.packages import needs
from tests.tracking.kit import Home, home, read_all

assert home

COPIES = """
import copy, pickle, gputop as wandb

class Trainer:
    def __init__(self):
        self.run = wandb.init(name="one", config={"lr": 0.1, "lock": __import__("threading").Lock()})
        self.log = self.run.log
        self.tell = self.run.alert
        self.data = self.run.phase("data")
trainer = Trainer()
log = trainer.run.log
assert pickle.loads(pickle.dumps(log)).__self__ is log.__self__
for step, other in enumerate((trainer, copy.copy(trainer), copy.deepcopy(trainer), pickle.loads(pickle.dumps(trainer)))):
    assert other.run is trainer.run
    other.log({"loss": step}); other.run.log(acc=1.0); other.tell("again")
    with other.data:
        pass
trainer.run.finish()
assert copy.deepcopy(trainer).run is trainer.run is pickle.loads(pickle.dumps(trainer)).run
none = wandb.init(mode="disabled")
assert copy.deepcopy(none) is none
copy.deepcopy([none.log, none.phase("x")])
"""


def test_a_copy_of_what_holds_a_run_logs_to_that_run(home: Home) -> None:
    assert home.run(COPIES) == (0, "", "")
    (archive,) = home.archives()
    said = read_all(archive).series
    assert [value for _, value in said["loss"]] == [0.0, 1.0, 2.0, 3.0]
    assert len(said["phase/data"]) == 4


SAVES = """
import gputop, pickle, sys
run = gputop.init(project="p", name="saved", tags=("a",), config={"lr": 0.1, "lock": __import__("threading").Lock()})
run.summary["best"] = 0.5
run.log(loss=1.0)
saved = pickle.dumps((run, run.log, run.phase("data")))
run.finish()
open(sys.argv[1], "wb").write(saved + pickle.dumps(run))
"""
LOADS = """
import copy, gputop, pickle, sys
with open(sys.argv[1], "rb") as file:
    (run, log, data), ended = pickle.load(file), pickle.load(file)
print(run.name, run.project, run.tags, run.config.lr, run.summary["best"], run.disabled, gputop.run)
for one in (ended, run, copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
    one.log({"loss": 1.0}, step=3)
    one.log(loss=1.0)
    one.config["epochs"] = 3; one.summary["best"] = 1.0; one.tags = ("b",); one.name = "other"
    one.text("x"); one.alert("t"); one.fact("a", 1); one.define_metric("loss"); one.watch(object()); one.save("x.pt")
    with one.phase("x"), one:
        pass
log(loss=1.0)
with data:
    pass
"""


def test_a_run_from_another_process_records_nothing_and_says_so_once(home: Home) -> None:
    place = str(home.state / "saved")
    assert home.run(SAVES, place) == (0, "", "")
    code, out, err = home.run(LOADS, place)
    assert (code, out) == (0, "saved p ('a',) 0.1 0.5 True None\n"), err
    told = [line for line in err.splitlines() if "save is not kept" not in line]
    line = "a run that another process opened records nothing here: log in that process, or call gputop.init() in this one."
    assert told == [f"gputop: {line}"]
    (archive,) = home.archives()
    assert read_all(archive).series["loss"] == [(0, 1.0)]


IN_A_DATASET = """
import sys
import gputop, torch

class Data(torch.utils.data.Dataset):
    def __init__(self, run):
        self.run, self.log = run, run.log
    def __len__(self):
        return 8
    def __getitem__(self, item):
        self.run.log(read=item)
        self.log({"read": item})
        with self.run.phase("read"):
            return torch.full((2,), float(item))

if __name__ == "__main__":
    data = Data(gputop.init(name="dataset"))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context=sys.argv[1])
    for batch in loader:
        data.run.log(total=batch.sum())
    print("done")
"""


@needs("torch")
@pytest.mark.parametrize("how", ["spawn", "forkserver", "fork"])
def test_workers_of_a_dataset_that_holds_a_run_work(home: Home, how: str) -> None:
    code, out, err = home.run(IN_A_DATASET, how)
    assert (code, out) == (0, "done\n"), err
    assert "Traceback" not in err
    assert err.count("gputop:") == (how != "fork"), err
    (archive,) = home.archives()
    assert read_all(archive).series["total"] == [(0, 12.0), (1, 44.0)]
