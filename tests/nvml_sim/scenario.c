/* Reading of scenario files, and waves. See scenario.h and the writer in __init__.py. */
#define _GNU_SOURCE
#include "scenario.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

static const char *const reading_names[] = {
#define AS_NAME(name) #name,
    READINGS(AS_NAME)
#undef AS_NAME
};

double wall_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double noise(long bucket, double phase) {
    uint64_t x = (uint64_t)bucket * 0x9E3779B97F4A7C15u + (uint64_t)(phase * 1e6);
    x ^= x >> 30, x *= 0xBF58476D1CE4E5B9u, x ^= x >> 27, x *= 0x94D049BB133111EBu, x ^= x >> 31;
    return (double)(x >> 11) / (double)(1ull << 53);
}

double wave_at(const struct wave *wave, const struct scenario *scenario) {
    double span = wave->high - wave->low;
    double turns = 0, share = 0;
    if (wave->kind > WAVE_CONST && wave->period_s > 0) {
        turns = (wall_clock() - scenario->epoch + wave->phase_s) / wave->period_s;
        share = turns - floor(turns);
    }
    switch (wave->kind) {
    case WAVE_SINE:
        return wave->low + span * (0.5 - 0.5 * cos(2 * M_PI * share));
    case WAVE_SQUARE:
        return share < 0.5 ? wave->high : wave->low;
    case WAVE_SAWTOOTH:
        return wave->low + span * share;
    case WAVE_NOISE:
        return wave->low + span * noise((long)floor(turns), wave->phase_s);
    default:
        return wave->low;
    }
}

double wave_sum(const struct wave *wave, const struct scenario *scenario) {
    double seconds = wall_clock() - scenario->epoch;
    double mean = wave->kind == WAVE_CONST ? wave->low : (wave->low + wave->high) / 2;
    return seconds > 0 ? mean * seconds : 0;
}

static struct wave parse_wave(const char *text) {
    static const char *const kinds[] = {"na", "const", "sine", "square", "sawtooth", "noise"};
    struct wave wave = {WAVE_NONE, 0, 0, 1, 0};
    char kind[16] = "";
    sscanf(text, "%15s", kind);
    for (int i = 0; i < 6; i++)
        if (!strcmp(kind, kinds[i]))
            wave.kind = (enum wave_kind)i;
    sscanf(text, "%*s %lf %lf %lf %lf", &wave.low, &wave.high, &wave.period_s, &wave.phase_s);
    return wave;
}

static int parse_gpu(const char *text) { return *text == '*' ? ANY : atoi(text); }

static void copy(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from); }

/* "0-3,8": as the kernel writes lists of cores. */
static void parse_cpus(struct gpu *gpu, const char *text) {
    const unsigned bits = 8 * sizeof *gpu->cpus;
    unsigned first, last;
    int used;
    gpu->has_cpus = 1;
    while (sscanf(text, "%u%n", &first, &used) == 1) {
        text += used, last = first;
        if (sscanf(text, "-%u%n", &last, &used) == 1)
            text += used;
        for (unsigned core = first; core <= last && core < bits * MASK_WORDS; core++)
            gpu->cpus[core / bits] |= 1ul << core % bits;
        text += *text == ',';
    }
}

static void parse_gpu_line(struct scenario *scenario, const char *rest) {
    int index = 0, used = 0;
    char key[64] = "";
    if (sscanf(rest, "%d %63s %n", &index, key, &used) < 2 || index < 0 || index >= MAX_GPUS)
        return;
    struct gpu *gpu = &scenario->gpus[index];
    const char *value = rest + used;
    if (index >= scenario->gpu_count)
        scenario->gpu_count = index + 1;
    if (!strcmp(key, "name"))
        copy(gpu->name, sizeof gpu->name, value);
    else if (!strcmp(key, "uuid"))
        copy(gpu->uuid, sizeof gpu->uuid, value);
    else if (!strcmp(key, "pci"))
        copy(gpu->pci, sizeof gpu->pci, value);
    else if (!strcmp(key, "serial"))
        copy(gpu->serial, sizeof gpu->serial, value);
    else if (!strcmp(key, "cpus"))
        parse_cpus(gpu, value);
    else
        for (int i = 0; i < READING_COUNT; i++)
            if (!strcmp(key, reading_names[i]))
                gpu->readings[i] = parse_wave(value);
}

static void parse_line(struct scenario *scenario, char *line) {
    char word[32] = "", first[80] = "", second[80] = "";
    int used = 0;
    if (sscanf(line, "%31s %n", word, &used) < 1 || word[0] == '#')
        return;
    char *rest = line + used;
    if (!strcmp(word, "gpu")) {
        parse_gpu_line(scenario, rest);
    } else if (!strcmp(word, "set") && sscanf(rest, "%79s %79s", first, second) == 2) {
        if (!strcmp(first, "driver_version"))
            copy(scenario->driver_version, sizeof scenario->driver_version, second);
        else if (!strcmp(first, "cuda_version"))
            scenario->cuda_version = atoi(second);
        else if (!strcmp(first, "init_error"))
            scenario->init_error = atoi(second);
        else if (!strcmp(first, "epoch"))
            scenario->epoch = atof(second);
        else if (!strcmp(first, "latency_us"))
            scenario->latency_us = atol(second);
        else if (!strcmp(first, "thermal_fields"))
            scenario->thermal_fields = (unsigned)atoi(second);
    } else if (!strcmp(word, "mig")) {
        int gpu = 0;
        struct mig mig = {0};
        if (sscanf(rest, "%d %u %u %95s %31s %lf %lf %n", &gpu, &mig.gpu_instance, &mig.compute_instance, mig.uuid,
                   mig.profile, &mig.memory_total, &mig.memory_used, &used) == 7 &&
            gpu >= 0 && gpu < MAX_GPUS && scenario->gpus[gpu].mig_count < MAX_MIG) {
            mig.sm_activity = parse_wave(rest + used);
            scenario->gpus[gpu].mig[scenario->gpus[gpu].mig_count++] = mig;
        }
    } else if (!strcmp(word, "process") && scenario->process_count < MAX_PROCESSES) {
        struct process *process = &scenario->processes[scenario->process_count];
        if (sscanf(rest, "%79s %79s %u %7s %lf %n", first, second, &process->pid, process->types, &process->memory,
                   &used) == 5) {
            process->gpu = atoi(first), process->mig = parse_gpu(second);
            process->sm = parse_wave(rest + used);
            scenario->process_count++;
        }
    } else if (!strcmp(word, "xid") && scenario->xid_count < MAX_XIDS) {
        struct xid *xid = &scenario->xids[scenario->xid_count];
        scenario->xid_count += sscanf(rest, "%d %lf %u", &xid->gpu, &xid->at, &xid->number) == 3;
    } else if (scenario->rule_count < MAX_RULES) {
        struct rule *rule = &scenario->rules[scenario->rule_count];
        if (sscanf(rest, "%79s %63s %ld %d", first, rule->function, &rule->number, &rule->code) < 2)
            return;
        rule->gpu = parse_gpu(first);
        if (!strcmp(word, "error"))
            rule->kind = RULE_ERROR;
        else if (!strcmp(word, "hang"))
            rule->kind = RULE_HANG;
        else if (!strcmp(word, "slow"))
            rule->kind = RULE_SLOW;
        else if (!strcmp(word, "field"))
            rule->kind = RULE_FIELD, rule->code = (int)rule->number, rule->number = atol(rule->function);
        else
            return;
        scenario->rule_count++;
    }
}

/* This many scenarios are kept for calls that have not ended yet; then the oldest one's memory is used again. */
#define KEPT 8

static struct scenario *empty_scenario(void) {
    static struct scenario *kept[KEPT];
    static unsigned next;
    struct scenario **place = &kept[next++ % KEPT];
    if (*place) {
        madvise(*place, sizeof **place, MADV_DONTNEED); /* zero again, and only what is written takes memory */
        return *place;
    }
    *place = mmap(NULL, sizeof **place, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*place == MAP_FAILED)
        abort();
    return *place;
}

static struct scenario *load(const char *path) {
    struct scenario *scenario = empty_scenario();
    FILE *file = fopen(path, "r");
    char line[1024];
    strcpy(scenario->driver_version, "0-sim");
    strcpy(scenario->nvml_version, "13.580.95.05");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        parse_line(scenario, line);
    }
    if (file)
        fclose(file);
    return scenario;
}

static _Atomic(const struct scenario *) current;
static _Atomic long looked_ms = -1000;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

const struct scenario *scenario_now(void) {
    static struct stat seen;
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    long now_ms = (long)clock.tv_sec * 1000 + clock.tv_nsec / 1000000;
    const struct scenario *scenario = current;
    if (scenario && now_ms - looked_ms < 5)
        return scenario;
    pthread_mutex_lock(&loading);
    const char *path = getenv("GPUTOP_NVML_SIM_SCENARIO");
    struct stat found;
    if (path && !stat(path, &found)) {
        int same = found.st_ino == seen.st_ino && found.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
                   found.st_mtim.tv_nsec == seen.st_mtim.tv_nsec && found.st_size == seen.st_size;
        if (!current || !same) {
            current = load(path);
            seen = found;
        }
    } else if (!current) {
        current = load("/dev/null");
    }
    looked_ms = now_ms;
    scenario = current;
    pthread_mutex_unlock(&loading);
    return scenario;
}
