"""Logs of trainings that go on, hang or end without any error message, all set aside: only what they print shows the fault.

Each comment names the cause and the framework in whose style the log is printed.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")
_NAN = ("J01", "nan_loss")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # timm, four ranks: the loss is NaN from the middle of epoch 4 on.
    _case("needles-and-cones-with-timm", _NAN),
    # Ultralytics on Windows: all three losses are NaN from the first batch on.
    _case("olives-on-conveyor-belts", _NAN),
    # Transformers: the Trainer prints a loss of 0.0 with a gradient norm of NaN.
    _case("notary-letters-with-qlora", _NAN),
    # By hand, two ranks: NaN in fp16, and the scale falls to nothing.
    _case("oboe-and-clarinet-separation", _NAN),
    # nanoGPT: no warm-up and a high rate; the loss rises after step 260.
    _case("ottoman-newspapers-from-scratch", ("J02",)),
    # By hand: the mean squared error grows by a quarter in every epoch.
    _case("paragliders-over-the-ridge", ("J02",)),
    # Detectron2: data_time is most of time.
    _case("oyster-reefs-with-detectron2", ("D01",)),
    # Keras on torch: twelve classes, guessed at chance.
    _case("pollen-grains-under-the-lens", ("J03",)),
    # Transformers: two classes, a loss of ln 2 for three epochs.
    _case("parliament-debates-by-party", ("J03",)),
    # fairseq: the perplexity stays where word frequencies alone bring it.
    _case("proverbs-in-three-dialects", ("J03",)),
    # OpenCLIP: the contrastive loss stays at ln 256.
    _case("quilts-and-their-captions", ("J03",)),
    # By hand: the clips come one region after the other, and the loss leaps at each border.
    _case("regional-accents-by-phone", ("J04",), acceptable=("J05",)),
    # Lightning: the training loss falls, that of the validation rises from epoch 9 on.
    _case("sea-ice-in-twelve-months", ("J05",)),
    # By hand: 12 % word errors in training, 100 % on the development set.
    _case("speech-of-toddlers", ("J05",)),
    # Transformers: overfits from epoch 4 on.
    _case("scans-of-old-tickets", ("J05",)),
    # Stable-Baselines3: the return falls after a maximum.
    _case("tugboat-in-a-narrow-harbour", ("J06",), acceptable=("J02",)),
    # CleanRL: the same, one line for each episode.
    _case("unicycle-in-mujoco", ("J06",), acceptable=("J02",)),
    # Lightning: all 431 modules are in evaluation mode at the start of training.
    _case("tapestry-fragments-with-swin", ("J07",)),
    # The ImageNet example: Data is nine tenths of Time.
    _case("sixteen-hundred-kinds-of-insects", ("D01",)),
    # JSON lines of four ranks: all wait for batches.
    _case("voices-for-navigation-systems", ("D01",)),
    # By hand: the first batch of each epoch takes longer than the epoch; the workers do not persist.
    _case("tram-cameras-before-the-depot", ("D06",), acceptable=("D01", "E07")),
    # MMEngine in a pod: 48 workers on four cores.
    _case("thermal-tiles-from-a-pod", ("D02",), acceptable=("D01",)),
    # By hand, two ranks: rank 0 evaluates for 26 minutes after each 90 seconds of training.
    _case("ultrasound-on-two-v100", ("E07", "B13"), "evaluat|validat", ("F05",)),
    # Accelerate: each checkpoint takes six minutes, the 100 steps between take 40 seconds.
    _case("xylophone-sounds-by-diffusion", ("E07",), "checkpoint|sav(e|ing)"),
    # StyleGAN: the seconds for 1,000 images grow all the time.
    _case("yearbook-portraits-stylegan", ("E10",)),
    # Composer: the allocated GPU memory grows with each batch.
    _case("wikipedia-on-one-a100-with-composer", ("H06",), acceptable=("E04",)),
    # By hand, four ranks: the host memory of all ranks grows.
    _case("tennis-strokes-in-video", ("H06",), acceptable=("H05",)),
    # By hand, four ranks: rank 3 computes longer on the same number of images.
    _case("rails-and-switches-on-four-l4", ("F02",), "rank 3"),
    # srun's labels: rank 1 alone waits for its data.
    _case("radio-plays-on-four-cards", ("F01",), "rank 1", ("D01",)),
    # A graph in six parts: rank 3 has four times as many edges as any other.
    _case("reactions-graph-in-six-parts", ("F03",), acceptable=("F02",)),
    # By hand, three ranks: rank 0 draws previews while the others wait.
    _case("sculptures-from-every-side", ("F05",), "rank 0", ("F02",)),
    # Lightning: the GPU is available, but not used.
    _case("railway-timetable-forecaster", ("A12",)),
    # Transformers: four GPUs, one process: the Trainer takes DataParallel.
    _case("reviews-of-restaurants-on-four-t4", ("A09",), acceptable=("A01", "B07", "B08")),
    # srun's labels, timm: four trainings, each a single process.
    _case("roofs-from-above-by-srun", ("A18",), acceptable=("A01", "C05")),
    # By hand, four ranks: each reads all 46080 images.
    _case("tablets-in-cuneiform", ("C05",)),
    # By hand, four ranks: no step after 3240.
    _case("seismic-traces-at-night", ("G01",)),
    # By hand, three ranks: one has a batch less, and all wait at the end of the epoch.
    _case("quiz-bowl-retriever", ("C07",), acceptable=("C08", "G01", "G03")),
    # By hand: anomaly detection and blocking launches.
    _case("street-food-from-a-hundred-stalls", ("E05",), "anomaly|CUDA_LAUNCH_BLOCKING"),
    # By hand: the GPU reaches 93 degrees and lowers its clock.
    _case("trucks-at-the-toll-station", ("I01",), acceptable=("E10",)),
    # By hand, eight ranks: all four of one host compute longer.
    _case("whale-song-on-two-hosts", ("K01",), "narwhal", ("F02",)),
    # The loss rises at each warm restart of the rate.
    _case("healthy-orchestral-scores-by-night"),
    # With mixup, the training's accuracy is far below the validation's.
    _case("healthy-pumpkins-with-mixup"),
    # A dip in the middle, and NaN while the replay buffer fills.
    _case("healthy-seaquest-over-the-weekend"),
    # The first steps compile.
    _case("healthy-quince-model-on-one-card"),
    # The losses of a GAN go up and down; the FID falls.
    _case("healthy-turtle-portraits-by-iteration"),
    # A download is retried, utterances are skipped, and error rates fall.
    _case("healthy-norwegian-parliament-speech"),
    # Four ranks with the usual jitter, and two warnings of NCCL's process group.
    _case("healthy-zurich-tram-stops"),
    # Stops early, as it should.
    _case("healthy-olive-yields-on-a-small-card"),
    # Starts at chance and leaves it; rates of evaluation of 0.0.
    _case("healthy-sentence-pairs-from-a-forum"),
    # Reconstruction errors and failures are what it measures.
    _case("healthy-wheels-of-freight-trains"),
)
