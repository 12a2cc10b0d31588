/* The scenario that the simulated driver plays: what the text file says, and its values at a moment.
 *
 * The file is read again when it changes. A loaded scenario is never freed: another thread may be inside a simulated
 * hang that still reads it, and a test loads a handful at most.
 */
#ifndef GPUTOP_NVML_SIM_SCENARIO_H
#define GPUTOP_NVML_SIM_SCENARIO_H

#include <stdint.h>

#define MAX_GPUS 64
#define MAX_MIG 8
#define MAX_PROCESSES 512
#define MAX_RULES 256
#define MAX_XIDS 64
#define MASK_WORDS 32
#define ANY (-1)

/* Every reading of a GPU is a wave; X(name) is the key in the file, after "gpu <index>". */
#define READINGS(X)                                                                                                    \
    X(utilization) X(memory_utilization) X(memory_total) X(memory_used) X(memory_reserved)                             \
    X(power) X(power_limit) X(power_default_limit) X(power_fields) X(power_instant) X(energy_base) X(memory_denied)    \
    X(temperature) X(temperature_slowdown) X(temperature_shutdown) X(memory_temperature)                               \
    X(sm_clock) X(sm_clock_max) X(memory_clock) X(memory_clock_max) X(performance_state) X(fan)                        \
    X(throttle_reasons) X(throttle_power) X(throttle_sync_boost) X(throttle_thermal_sw) X(throttle_thermal_hw)         \
    X(throttle_power_brake)                                                                                            \
    X(pcie_generation) X(pcie_generation_max) X(pcie_width) X(pcie_width_max) X(pcie_rx) X(pcie_tx)                    \
    X(pcie_counter_bits) X(pcie_blocking) X(nvlink_rx) X(nvlink_tx) X(nvlink_links)                                    \
    X(ecc_corrected) X(ecc_uncorrected) X(remapped_correctable) X(remapped_uncorrectable) X(remapped_pending)          \
    X(remapped_failed) X(compute_mode) X(mig_mode) X(persistence) X(compute_capability)                                \
    X(gpm) X(sm_activity) X(sm_occupancy) X(tensor_activity) X(dram_activity) X(graphics_activity)                     \
    X(process_utilization) X(process_memory) X(lost) X(reset_required)                                                  \
    X(numa_node) X(nvlinks_active) X(events) X(license)

enum reading {
#define AS_ENUM(name) R_##name,
    READINGS(AS_ENUM)
#undef AS_ENUM
        READING_COUNT
};

enum wave_kind { WAVE_NONE, WAVE_CONST, WAVE_SINE, WAVE_SQUARE, WAVE_SAWTOOTH, WAVE_NOISE };

struct wave {
    enum wave_kind kind;
    double low, high, period_s, phase_s;
};

struct mig {
    char uuid[96], profile[32];
    unsigned gpu_instance, compute_instance;
    double memory_total, memory_used;
    struct wave sm_activity;
};

struct gpu {
    char name[96], uuid[96], pci[32], serial[32];
    int has_cpus;
    unsigned long cpus[MASK_WORDS]; /* the cores that are near, as a mask */
    struct wave readings[READING_COUNT];
    int mig_count;
    struct mig mig[MAX_MIG];
};

struct process {
    int gpu, mig; /* mig is ANY on a GPU without instances */
    unsigned pid;
    char types[8];
    double memory; /* bytes; negative: not available */
    struct wave sm;
};

/* An error that the driver reports to whoever watches at that moment. */
struct xid {
    int gpu;
    double at; /* wall clock, seconds */
    unsigned number;
};

/* What happens to calls of one function on one GPU, before it is answered. */
struct rule {
    enum { RULE_ERROR, RULE_HANG, RULE_SLOW, RULE_FIELD } kind;
    int gpu;            /* ANY: every GPU, and calls without one */
    char function[64];  /* "*": every function */
    long number;        /* error code, microseconds, or the field id of a RULE_FIELD */
    int code;           /* of a RULE_FIELD */
};

struct scenario {
    char driver_version[80], nvml_version[80];
    int cuda_version, gpu_count, process_count, rule_count, xid_count, init_error;
    double epoch; /* wall clock, seconds: waves and counters start here, in every process */
    long latency_us;
    unsigned thermal_fields; /* the first of three ids that NVIDIA has moved: slowdown by software, hardware, and brake */
    struct gpu gpus[MAX_GPUS];
    struct process processes[MAX_PROCESSES];
    struct rule rules[MAX_RULES];
    struct xid xids[MAX_XIDS];
};

/* The newest scenario; reads the file again when it has changed (looked at no more than every 5 ms). */
const struct scenario *scenario_now(void);

double wall_clock(void);
double wave_at(const struct wave *wave, const struct scenario *scenario);
/* The wave's mean times the seconds since the epoch: how a counter that this wave drives has grown. */
double wave_sum(const struct wave *wave, const struct scenario *scenario);

#endif
