"""Logs of trainings that go on, or hang, without any error: what they print shows what is wrong. The author knew only titles.

Each comment names the cause and what shows it.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # OpenNMT-py in fp16: from step 3900 on ppl and xent are nan.
    _case("novels-into-welsh", ("J01", "nan_loss")),
    # MMSegmentation: from iteration 1000 on all losses are nan, and only the background is predicted.
    _case("oysters-with-mmseg", ("J01", "nan_loss")),
    # Megatron-LM without clipping at a rate of 3e-3: the loss rises from 3.5 to 7.7 after step 510.
    _case("persian-from-scratch", ("J02",)),
    # Keras on torch: the error of a regression grows from epoch to epoch.
    _case("potato-yields-in-keras", ("J02",)),
    # Two balanced classes, a loss of 0.693 and half of the answers right in each epoch.
    _case("pneumonia-in-two-hospitals", ("J03",)),
    # timm's train.py: the loss of 120 classes stays at ln 120 with a rate of 0.02 for AdamW.
    _case("plankton-in-120-kinds", ("J03",)),
    # The triplet loss stays at its margin: all embeddings are one point.
    _case("quilts-by-triplets", ("J03",)),
    # fairseq: the scheduler has come to a rate of 0 after 1000 updates, and nothing changes from then on.
    _case("quartets-with-fairseq", ("J03",)),
    # A file sorted by class and a SequentialSampler: each batch has one class only.
    _case("recipes-by-cuisine", ("J04",), acceptable=("J03", "J05")),
    # transformers: eval_loss rises from 0.43 to 1.57 while the training loss goes to nothing.
    _case("sarcasm-with-roberta", ("J05",)),
    # RecBole: the train loss falls, the logloss of the validation rises from epoch 4 on, and the AUC falls.
    _case("second-hand-books", ("J05",)),
    # nnU-Net with nine cases, the beginning cut off: train_loss falls, val_loss rises.
    _case("vertebrae-fold-zero", ("J05",)),
    # Stable-Baselines3: ep_rew_mean falls from 2300 to -140.
    _case("tripod-in-mujoco", ("J06",)),
    # rsl_rl: the mean reward falls from 22 to below zero.
    _case("quadruped-on-the-stairs", ("J06",)),
    # CleanRL: the episodic return falls from 11 000 to 1000.
    _case("pinball-on-eight-actors", ("J06",)),
    # Lightning: 156 modules are in evaluation mode at the start of the training.
    _case("snow-crystals-of-january", ("J07",)),
    # LeRobot: data_s is eleven times updt_s.
    _case("towels-folded-by-a-robot", ("D01",), acceptable=("D07",)),
    # ESPnet: iter_time is most of train_time.
    _case("sermons-with-espnet", ("D01",), acceptable=("D07",)),
    # The first batch of each epoch takes 27 s, the others 0.12 s; the workers are not persistent.
    _case("violins-in-short-clips", ("D06",), acceptable=("D01", "E07")),
    # Detectron2 with 32 workers where two are suggested; data_time is most of the time.
    _case("spoons-at-noon", ("D02", "D03"), acceptable=("D01",)),
    # Accelerate: each checkpoint takes three minutes after one minute of training.
    _case("telescope-nights", ("E07",)),
    # An evaluation of 23 minutes after every two minutes of training.
    _case("winegrowers-letters", ("E07", "B13")),
    # The time of an update grows from 79 to 1381 ms within a night.
    _case("waves-in-the-north-sea", ("E10",), acceptable=("E04", "H06")),
    # DETR's logger: max mem grows by 1 GB per hundred steps.
    _case("owls-through-a-lens", ("H06", "E04"), acceptable=("H02",)),
    # The memory of the process on the host grows to 62 of 64 GiB.
    _case("zoo-cameras-in-a-pod", ("H06", "H05"), acceptable=("E04",)),
    # DeepSpeed: cache flushes of the allocator in each step.
    _case("wishes-and-complaints", ("E04",), acceptable=("H02",)),
    # Rank 2 loads for 1.4 s, the others wait for it in the all-reduce.
    _case("storms-on-four-ranks", ("F01",), acceptable=("D01", "D07")),
    # Rank 5 computes twice as long for equal crops.
    _case("proteins-on-eight-ranks", ("F02",), acceptable=("F05",)),
    # Rank 4 has 403 batches, the others 412: they wait for it without end.
    _case("soundscapes-from-six-cards", ("C07",), acceptable=("G01", "C08")),
    # Each of four ranks reads all 24 000 images with a RandomSampler.
    _case("tulips-on-four-cards", ("C05",)),
    # Four processes of mpirun, each with a world of one.
    _case("trams-and-trolleys", ("A18",), acceptable=("A01",)),
    # transformers: n_gpu is 4 and there is no distributed training.
    _case("postcards-with-trainer", ("A09",), acceptable=("A01", "B07", "B08")),
    # Lightning: GPU available, not used.
    _case("yeast-cells-by-lightning", ("A12",)),
    # DeepSpeed: backward_allreduce is 1.8 of 2.2 s.
    _case("sonnets-on-two-nodes", ("E06",), acceptable=("K05", "K07", "K08")),
    # Rank 3 does not come to the store's barrier: worker_count stays 3 of 4.
    _case("valleys-from-the-air", ("G03",), acceptable=("G01", "G02")),
    # All ranks of one host compute twice as long as those of the other.
    _case("upland-birds-on-two-hosts", ("K01", "K02"), acceptable=("F02",)),
    # 94 degrees, thermal slowdown, and the clock falls from 1920 to 795 MHz.
    _case("vases-of-the-museum", ("I01",), acceptable=("E10",)),
    # No step for more than an hour, the GPUs at 100 % with little power: all wait in a collective.
    _case("nougat-receipts", ("G01",), acceptable=("C08",)),
    # The loss of rank 2 rises to 11 while rank 0 shows 0.23.
    _case("rumours-on-four-gpus", ("C11",), acceptable=("J02",)),
    # Four ranks on cuda:0, three idle GPUs.
    _case("pebbles-of-a-gravel-pit", ("A07",), acceptable=("H01",)),
    # HiFi-GAN: the losses of a resumed vocoder wobble, its error on the validation set falls slowly.
    _case("healthy-native-orchestra-vocoder"),
    # A class that the validation set lacks has an IoU of nan.
    _case("healthy-orchards-without-pears"),
    # Returns are negative and noisy, and they rise.
    _case("healthy-pendulum-on-a-cart"),
    # fairseq: the loss scale goes down three times in the beginning, once later.
    _case("healthy-quechua-to-spanish"),
    # nanoGPT: the first iteration compiles, and an mfu of -100 % is no measurement.
    _case("healthy-poems-by-a-small-gpt"),
    # torchrun and DDP warn; four ranks are alike, and an error in percent falls.
    _case("healthy-sea-shells-on-four-ranks"),
    # The hub is slow to answer; a word error rate falls.
    _case("healthy-swahili-word-errors"),
    # The loss rises at each warm restart of the learning rate, as it should.
    _case("healthy-rice-leaves-with-restarts"),
    # The loss of a diffusion model seems flat while its FID falls.
    _case("healthy-tide-pools-by-diffusion"),
    # A requeued job, missing images, an unreachable tracker, and one skipped step.
    _case("healthy-underpasses-on-a-busy-cluster"),
)
