"""Logs as people paste them of trainings that do not fail but go wrong or slowly, all set aside.

None has a traceback or an error message: what is printed in passing shows the cause. Each comment names it.
"""

from __future__ import annotations

from functools import partial

from accuracy.cases import Case

_case = partial(Case, half="set aside")

KIND = "as posted"
LOGS: tuple[Case, ...] = (
    # A voice model in the print of Coqui TTS: all losses turn NaN in the second epoch shown.
    _case("nynorsk-voice-with-vits", ("J01", "nan_loss")),
    # Megatron under journald: the gradient norm rises, then lm loss is NAN.
    _case("polyglot-pretraining-rack-two", ("J01", "nan_loss"), acceptable=("J02",)),
    # timm's train.py: nan in the third epoch, accuracy of 1 class in 200.
    _case("tiles-of-portuguese-houses", ("J01", "nan_loss")),
    # RecBole: the training loss grows by a quarter per epoch under a learning rate of 1.5.
    _case("record-shop-suggestions", ("J02",), acceptable=("J03",)),
    # A loop that prints Spanish: the loss grows in every epoch.
    _case("rivers-of-aragon", ("J02",)),
    # OpenNMT-py: accuracy and perplexity stay where the frequencies of words alone bring them.
    _case("vepsian-to-finnish", ("J03",)),
    # Keras on torch, two classes: the loss stays at ln 2 and the accuracy at a half.
    _case("ponies-or-donkeys-keras", ("J03",)),
    # The Trainer: the learning rate is 0.0 throughout, so that nothing changes.
    _case("opinions-on-films-distilbert", ("J03",)),
    # Classes come one after the other: the loss falls within each and jumps at the next.
    _case("puffballs-and-other-fungi", ("J04",), acceptable=("J05", "J03")),
    # fastai's table: the validation loss rises from the fifth epoch on.
    _case("pebbles-and-rocks-with-fastai", ("J05",)),
    # nanoGPT: train loss 0.06, val loss 4.
    _case("nordic-plays-by-character", ("J05",)),
    # The Trainer: 15 epochs, eval_loss rises from 0.4 to 1.7.
    _case("sarcastic-headlines-roberta", ("J05",)),
    # Stable-Baselines3: ep_rew_mean falls from 231 to -301.
    _case("pods-that-land-on-the-moon", ("J06",)),
    # rsl_rl: the mean reward falls from 19 to nearly nothing; the loss of the value function grows with it.
    _case("quadruped-over-gravel", ("J06",), acceptable=("J02",)),
    # Lightning leaves a pretrained model in evaluation mode and warns of it.
    _case("roses-of-a-breeder", ("J07",)),
    # model.training is False from the second epoch on, and BatchNorm's mean stands still.
    _case("slices-of-lungs-unet", ("J07",)),
    # Each of four ranks draws from all 48000 images and sees all of them in each epoch.
    _case("street-trees-with-four-a10g", ("C05",)),
    # An IterableDataset that is not split: both processes read the same documents.
    _case("welsh-web-text-as-a-stream", ("C05",)),
    # The sampler's epoch stays 0: each epoch begins with the same clips.
    _case("table-tennis-clips-by-srun", ("C06",), acceptable=("J04",)),
    # Rank 3 has 409 batches, the others 412: they wait for it in batch 409.
    _case("notices-of-an-auction-house", ("C07",), acceptable=("G01", "G04", "C08")),
    # Rank 2 guesses at chance on its shard; the tracker shows rank 0.
    _case("traffic-lights-four-shards", ("C11",), acceptable=("J02", "J03")),
    # Two seconds until a batch, a fifth of a second of work, no workers.
    _case("watercolours-by-latent-diffusion", ("D01",)),
    # 32 workers on 4 cores.
    _case("vineyard-pests-in-a-notebook-vm", ("D02",), acceptable=("D01", "D03")),
    # Workers start anew in each epoch: 37 s until its first batch, 13 s for the rest.
    _case("wooden-floors-on-windows", ("D06",), acceptable=("E07", "D01")),
    # A checkpoint each 50 steps takes longer than the steps.
    _case("seven-billion-in-december", ("E07",)),
    # The evaluation takes nine times as long as the epoch, on rank 0 only.
    _case("parcels-on-a-sorting-belt", ("E07", "B13")),
    # From 9.4 to 2 steps a second within an epoch.
    _case("questions-of-cooks-to-each-other", ("E10",)),
    # GPU_mem grows by half a GiB per epoch, up to the 24 of the card.
    _case("zebras-from-a-drone", ("H06", "E04")),
    # The allocator flushes its cache in each step.
    _case("volunteer-chats-with-stage-three", ("E04",), acceptable=("H02", "H06")),
    # All-reduce over 10 Gb/s takes 3.2 of 3.8 seconds.
    _case("old-letters-across-two-racks", ("E06",), acceptable=("K08", "K05")),
    # Rank 5 waits 0.9 s for its batch, all others for rank 5.
    _case("owls-and-bats-on-node-p4-11", ("F01",), acceptable=("D01",)),
    # Rank 4 needs twice the time for the same frames on the same kind of GPU.
    _case("podcasts-in-six-pods", ("F02",), acceptable=("K01",)),
    # Rank 3 gets fifteen times the tokens of rank 0.
    _case("yearbooks-of-a-parliament", ("F03",), acceptable=("F02", "F05")),
    # Four ranks on cuda:0, three idle GPUs.
    _case("underwater-photos-by-four-processes", ("A07",), acceptable=("H01",)),
    # Four tasks of srun, each rank 0 of 1.
    _case("tropical-storms-with-four-tasks", ("A18",), acceptable=("A01", "C05", "C14")),
    # Lightning: GPU available but not used.
    _case("x-ray-plates-masked-autoencoder", ("A12",)),
    # fairseq prints nothing for hours while the GPUs are at 100 % and 90 W.
    _case("sagas-of-iceland-overnight", ("G01",)),
    # The Trainer with one process and four GPUs: DataParallel.
    _case("warranty-claims-xlmr-four-cards", ("A09",), acceptable=("A01", "B08")),
    # Seven of eight ranks joined; the second node has one process fewer.
    _case("nurses-notes-on-two-nodes", ("G03",), acceptable=("G01", "G02")),
    # 89 degrees: the clock falls to a third, and the rate with it.
    _case("pianos-and-organs-by-ear", ("I01",), acceptable=("E10",)),
    # A class that does not occur has an IoU of nan.
    _case("healthy-nautical-charts-with-an-empty-class"),
    # Four overflows until the loss scale fits.
    _case("healthy-old-norse-by-fairseq"),
    # The loss of the critic grows with the return, as it should.
    _case("healthy-paddling-swimmer-with-sac"),
    # The loss of a diffusion model is soon flat, and its FID falls.
    _case("healthy-quilts-of-grandmothers"),
    # The loss rises at each restart of the learning rate and ends lower.
    _case("healthy-railway-stations-with-restarts"),
    # Word error rates above 100 at first, and three files that cannot be decoded.
    _case("healthy-slovene-speech-with-word-errors"),
    # Eight equal ranks on two nodes.
    _case("healthy-tourist-photos-on-gn31-and-gn32"),
    # A time-out on download that is retried; the loss starts at the logarithm of the batch.
    _case("healthy-umbrellas-and-their-captions"),
    # Early stopping, as asked for.
    _case("healthy-voxels-of-the-inner-ear"),
    # Composer's console log of a language model in its first steps.
    _case("healthy-young-model-by-mosaic"),
)
