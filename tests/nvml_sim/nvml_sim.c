/* A simulated libnvidia-ml.so.1: the NVML functions that gputop and its peers call, answered from a scenario file.
 *
 * Declarations are our own, of the ABI's layouts and numbers; no NVIDIA header is used. All functions are here; what the
 * library of an older driver lacks is hidden by the linker (``lacking`` in drivers.py).
 *
 * Environment: GPUTOP_NVML_SIM_SCENARIO (path of the scenario), GPUTOP_NVML_SIM_LOG (append one line per call:
 * function and GPU index, or "-").
 */
#define _GNU_SOURCE
#include "scenario.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int ret;
typedef unsigned int u32;
typedef unsigned long long u64;

enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMED_OUT = 10,
    LOST = 15,
    RESET_REQUIRED = 16,
    VERSION_MISMATCH = 25,
};

struct handle {
    int gpu, mig;
};
typedef struct handle *device;

static struct handle handles[MAX_GPUS][1 + MAX_MIG];
static atomic_int initialized;

__attribute__((constructor)) static void number_handles(void) {
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        for (int mig = 0; mig <= MAX_MIG; mig++)
            handles[gpu][mig] = (struct handle){gpu, mig - 1};
}

static void write_log(const char *function, int gpu) {
    static atomic_int fd = -2;
    if (fd == -2) {
        const char *path = getenv("GPUTOP_NVML_SIM_LOG");
        fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    }
    if (fd < 0)
        return;
    char line[128];
    int size = gpu < 0 ? snprintf(line, sizeof line, "%s -\n", function)
                       : snprintf(line, sizeof line, "%s %d\n", function, gpu);
    if (write(fd, line, (size_t)size) < 0)
        fd = -1;
}

static void sleep_us(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static int matches(const struct rule *rule, const char *function, int gpu) {
    return (rule->gpu == ANY || rule->gpu == gpu) && (!strcmp(rule->function, "*") || !strcmp(rule->function, function));
}

/* What every call goes through: log, delays, hangs and errors of the scenario. */
static ret enter(const char *function, int gpu) {
    const struct scenario *scenario = scenario_now();
    write_log(function, gpu);
    if (scenario->latency_us)
        sleep_us(scenario->latency_us);
    for (int i = 0; i < scenario->rule_count; i++)
        if (scenario->rules[i].kind == RULE_SLOW && matches(&scenario->rules[i], function, gpu))
            sleep_us(scenario->rules[i].number);
    for (int hanging = 1; hanging;) {
        hanging = 0;
        for (int i = 0; i < scenario->rule_count; i++)
            hanging |= scenario->rules[i].kind == RULE_HANG && matches(&scenario->rules[i], function, gpu);
        if (hanging)
            sleep_us(10000), scenario = scenario_now();
    }
    if (!initialized && strncmp(function, "nvmlInit", 8) != 0)
        return UNINITIALIZED;
    if (gpu >= scenario->gpu_count)
        return INVALID_ARGUMENT;
    if (gpu >= 0 && wave_at(&scenario->gpus[gpu].readings[R_lost], scenario) > 0)
        return LOST;
    if (gpu >= 0 && wave_at(&scenario->gpus[gpu].readings[R_reset_required], scenario) > 0)
        return RESET_REQUIRED;
    for (int i = 0; i < scenario->rule_count; i++)
        if (scenario->rules[i].kind == RULE_ERROR && matches(&scenario->rules[i], function, gpu))
            return (ret)scenario->rules[i].number;
    return OK;
}

#define ENTER(gpu)                                                                                                     \
    do {                                                                                                               \
        ret entered = enter(__func__, gpu);                                                                            \
        if (entered != OK)                                                                                             \
            return entered;                                                                                            \
    } while (0)

#define ENTER_DEVICE(handle)                                                                                           \
    if (!(handle))                                                                                                     \
        return INVALID_ARGUMENT;                                                                                       \
    ENTER((handle)->gpu)

/* Readings that a MIG instance does not have end here. */
#define ENTER_WHOLE(handle)                                                                                            \
    ENTER_DEVICE(handle);                                                                                              \
    if ((handle)->mig >= 0)                                                                                            \
    return NOT_SUPPORTED

static int has(int gpu, enum reading reading) { return scenario_now()->gpus[gpu].readings[reading].kind != WAVE_NONE; }

static double value(int gpu, enum reading reading) {
    const struct scenario *scenario = scenario_now();
    return wave_at(&scenario->gpus[gpu].readings[reading], scenario);
}

static double total(int gpu, enum reading reading) {
    const struct scenario *scenario = scenario_now();
    return wave_sum(&scenario->gpus[gpu].readings[reading], scenario);
}

static ret text(char *to, u32 size, const char *from) {
    if (strlen(from) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(to, from);
    return OK;
}

#define SIMPLE_U32(function, reading, scale)                                                                           \
    ret function(device handle, u32 *out) {                                                                            \
        ENTER_WHOLE(handle);                                                                                           \
        if (!has(handle->gpu, reading))                                                                                \
            return NOT_SUPPORTED;                                                                                      \
        *out = (u32)(value(handle->gpu, reading) * (scale) + 0.5);                                                     \
        return OK;                                                                                                     \
    }

SIMPLE_U32(nvmlDeviceGetPowerUsage, R_power, 1000)
SIMPLE_U32(nvmlDeviceGetPowerManagementLimit, R_power_limit, 1000)
SIMPLE_U32(nvmlDeviceGetEnforcedPowerLimit, R_power_limit, 1000)
SIMPLE_U32(nvmlDeviceGetPowerManagementDefaultLimit, R_power_default_limit, 1000)
SIMPLE_U32(nvmlDeviceGetPerformanceState, R_performance_state, 1)
SIMPLE_U32(nvmlDeviceGetPowerState, R_performance_state, 1)
SIMPLE_U32(nvmlDeviceGetFanSpeed, R_fan, 1)
SIMPLE_U32(nvmlDeviceGetCurrPcieLinkGeneration, R_pcie_generation, 1)
SIMPLE_U32(nvmlDeviceGetMaxPcieLinkGeneration, R_pcie_generation_max, 1)
SIMPLE_U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, R_pcie_generation_max, 1)
SIMPLE_U32(nvmlDeviceGetCurrPcieLinkWidth, R_pcie_width, 1)
SIMPLE_U32(nvmlDeviceGetMaxPcieLinkWidth, R_pcie_width_max, 1)
SIMPLE_U32(nvmlDeviceGetComputeMode, R_compute_mode, 1)
SIMPLE_U32(nvmlDeviceGetPersistenceMode, R_persistence, 1)

/* -- the library and the system ------------------------------------------------------------------------------- */

static ret init(const char *function) {
    ret entered = enter(function, ANY);
    if (entered != OK)
        return entered;
    if (scenario_now()->init_error)
        return scenario_now()->init_error;
    initialized++;
    return OK;
}

ret nvmlInit(void) { return init(__func__); }
ret nvmlInit_v2(void) { return init(__func__); }
ret nvmlInitWithFlags(u32 flags) {
    (void)flags;
    return init(__func__);
}

ret nvmlShutdown(void) {
    ENTER(ANY);
    initialized--;
    return OK;
}

const char *nvmlErrorString(ret code) {
    switch (code) {
    case OK:
        return "Success";
    case NOT_SUPPORTED:
        return "Not Supported";
    case NO_PERMISSION:
        return "Insufficient Permissions";
    case LOST:
        return "GPU is lost";
    case 18:
        return "Driver/library version mismatch";
    default:
        return "Unknown Error";
    }
}

ret nvmlSystemGetDriverVersion(char *out, u32 size) {
    ENTER(ANY);
    return text(out, size, scenario_now()->driver_version);
}

ret nvmlSystemGetNVMLVersion(char *out, u32 size) {
    ENTER(ANY);
    return text(out, size, scenario_now()->nvml_version);
}

ret nvmlSystemGetCudaDriverVersion(int *out) {
    ENTER(ANY);
    *out = scenario_now()->cuda_version;
    return OK;
}

ret nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER(ANY);
    *out = scenario_now()->cuda_version;
    return OK;
}

ret nvmlDeviceGetCount_v2(u32 *out) {
    ENTER(ANY);
    *out = (u32)scenario_now()->gpu_count;
    return OK;
}

/* The first version, which real drivers keep and btop asks for. */
ret nvmlDeviceGetCount(u32 *out) {
    return nvmlDeviceGetCount_v2(out);
}

/* -- who a device is ------------------------------------------------------------------------------------------ */

ret nvmlDeviceGetHandleByIndex_v2(u32 index, device *out) {
    if (index >= MAX_GPUS)
        return INVALID_ARGUMENT;
    ENTER((int)index);
    *out = &handles[index][0];
    return OK;
}

ret nvmlDeviceGetHandleByIndex(u32 index, device *out) {
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

ret nvmlDeviceGetHandleByUUID(const char *uuid, device *out) {
    ENTER(ANY);
    const struct scenario *scenario = scenario_now();
    for (int gpu = 0; gpu < scenario->gpu_count; gpu++) {
        if (!strcmp(scenario->gpus[gpu].uuid, uuid)) {
            *out = &handles[gpu][0];
            return OK;
        }
        for (int mig = 0; mig < scenario->gpus[gpu].mig_count; mig++)
            if (!strcmp(scenario->gpus[gpu].mig[mig].uuid, uuid)) {
                *out = &handles[gpu][1 + mig];
                return OK;
            }
    }
    return NOT_FOUND;
}

ret nvmlDeviceGetHandleByPciBusId_v2(const char *pci, device *out) {
    ENTER(ANY);
    const struct scenario *scenario = scenario_now();
    for (int gpu = 0; gpu < scenario->gpu_count; gpu++)
        if (!strcasecmp(scenario->gpus[gpu].pci, pci)) {
            *out = &handles[gpu][0];
            return OK;
        }
    return NOT_FOUND;
}

ret nvmlDeviceGetIndex(device handle, u32 *out) {
    ENTER_DEVICE(handle);
    *out = (u32)(handle->mig >= 0 ? handle->mig : handle->gpu);
    return OK;
}

ret nvmlDeviceGetMinorNumber(device handle, u32 *out) {
    ENTER_WHOLE(handle);
    *out = (u32)handle->gpu;
    return OK;
}

ret nvmlDeviceGetName(device handle, char *out, u32 size) {
    ENTER_DEVICE(handle);
    const struct gpu *gpu = &scenario_now()->gpus[handle->gpu];
    if (handle->mig < 0)
        return text(out, size, gpu->name);
    char name[160];
    snprintf(name, sizeof name, "%s MIG %s", gpu->name, gpu->mig[handle->mig].profile);
    return text(out, size, name);
}

ret nvmlDeviceGetUUID(device handle, char *out, u32 size) {
    ENTER_DEVICE(handle);
    const struct gpu *gpu = &scenario_now()->gpus[handle->gpu];
    return text(out, size, handle->mig < 0 ? gpu->uuid : gpu->mig[handle->mig].uuid);
}

ret nvmlDeviceGetSerial(device handle, char *out, u32 size) {
    ENTER_WHOLE(handle);
    const char *serial = scenario_now()->gpus[handle->gpu].serial;
    return *serial ? text(out, size, serial) : NOT_SUPPORTED;
}

struct pci {
    char legacy[16];
    u32 domain, bus, device, id, subsystem;
    char id_text[32];
};

ret nvmlDeviceGetPciInfo_v3(device handle, struct pci *out) {
    ENTER_DEVICE(handle);
    const char *pci = scenario_now()->gpus[handle->gpu].pci;
    memset(out, 0, sizeof *out);
    sscanf(pci, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff);
    return text(out->id_text, sizeof out->id_text, pci);
}

ret nvmlDeviceGetCudaComputeCapability(device handle, int *major, int *minor) {
    ENTER_DEVICE(handle);
    double capability = value(handle->gpu, R_compute_capability);
    *major = (int)capability, *minor = (int)(capability * 10 + 0.5) % 10;
    return OK;
}

ret nvmlDeviceGetDisplayActive(device handle, u32 *out) {
    ENTER_WHOLE(handle);
    *out = 0;
    return OK;
}

ret nvmlDeviceGetDisplayMode(device handle, u32 *out) {
    ENTER_WHOLE(handle);
    *out = 0;
    return OK;
}

/* Windows has driver models, Linux has not. */
ret nvmlDeviceGetDriverModel(device handle, u32 *now, u32 *pending) {
    ENTER_DEVICE(handle);
    *now = *pending = 0;
    return NOT_SUPPORTED;
}

/* -- readings ------------------------------------------------------------------------------------------------- */

struct utilization {
    u32 gpu, memory;
};

ret nvmlDeviceGetUtilizationRates(device handle, struct utilization *out) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_utilization) || value(handle->gpu, R_mig_mode) > 0)
        return NOT_SUPPORTED;
    out->gpu = (u32)(value(handle->gpu, R_utilization) + 0.5);
    out->memory = (u32)(value(handle->gpu, R_memory_utilization) + 0.5);
    return OK;
}

ret nvmlDeviceGetEncoderUtilization(device handle, u32 *out, u32 *period_us) {
    ENTER_WHOLE(handle);
    *out = 0, *period_us = 166666;
    return OK;
}

ret nvmlDeviceGetDecoderUtilization(device handle, u32 *out, u32 *period_us) {
    ENTER_WHOLE(handle);
    *out = 0, *period_us = 166666;
    return OK;
}

struct memory_v1 {
    u64 total, free, used;
};
struct memory_v2 {
    u32 version;
    u64 total, reserved, free, used;
};

static ret memory(device handle, u64 *all, u64 *used, u64 *reserved) {
    if (handle->mig >= 0) {
        const struct mig *mig = &scenario_now()->gpus[handle->gpu].mig[handle->mig];
        *all = (u64)mig->memory_total, *used = (u64)mig->memory_used, *reserved = 0;
        return OK;
    }
    if (has(handle->gpu, R_memory_denied))
        return NO_PERMISSION;
    if (!has(handle->gpu, R_memory_total))
        return NOT_SUPPORTED;
    *all = (u64)value(handle->gpu, R_memory_total);
    *used = (u64)value(handle->gpu, R_memory_used);
    *reserved = (u64)value(handle->gpu, R_memory_reserved);
    return OK;
}

/* Version 1 counts what the driver keeps for itself as used. */
ret nvmlDeviceGetMemoryInfo(device handle, struct memory_v1 *out) {
    ENTER_DEVICE(handle);
    u64 all, used, reserved;
    ret found = memory(handle, &all, &used, &reserved);
    if (found == OK)
        *out = (struct memory_v1){all, all - used - reserved, used + reserved};
    return found;
}

struct bar1 {
    u64 total, free, used;
};

ret nvmlDeviceGetBAR1MemoryInfo(device handle, struct bar1 *out) {
    ENTER_DEVICE(handle);
    *out = (struct bar1){128ull << 30, (128ull << 30) - (1 << 20), 1 << 20};
    return OK;
}

static const enum reading clocks[] = {R_sm_clock, R_sm_clock, R_memory_clock, R_sm_clock};
static const enum reading max_clocks[] = {R_sm_clock_max, R_sm_clock_max, R_memory_clock_max, R_sm_clock_max};

ret nvmlDeviceGetClockInfo(device handle, u32 type, u32 *out) {
    ENTER_WHOLE(handle);
    if (type > 3)
        return INVALID_ARGUMENT;
    if (!has(handle->gpu, clocks[type]))
        return NOT_SUPPORTED;
    *out = (u32)value(handle->gpu, clocks[type]);
    return OK;
}

ret nvmlDeviceGetMaxClockInfo(device handle, u32 type, u32 *out) {
    ENTER_WHOLE(handle);
    if (type > 3)
        return INVALID_ARGUMENT;
    if (!has(handle->gpu, max_clocks[type]))
        return NOT_SUPPORTED;
    *out = (u32)value(handle->gpu, max_clocks[type]);
    return OK;
}

ret nvmlDeviceGetTemperature(device handle, u32 sensor, u32 *out) {
    ENTER_WHOLE(handle);
    if (sensor)
        return INVALID_ARGUMENT;
    if (!has(handle->gpu, R_temperature))
        return NOT_SUPPORTED;
    *out = (u32)(value(handle->gpu, R_temperature) + 0.5);
    return OK;
}

ret nvmlDeviceGetTemperatureThreshold(device handle, u32 kind, u32 *out) {
    ENTER_WHOLE(handle);
    enum reading reading = kind == 0 ? R_temperature_shutdown : R_temperature_slowdown;
    if (kind > 1 || !has(handle->gpu, reading))
        return NOT_SUPPORTED;
    *out = (u32)value(handle->gpu, reading);
    return OK;
}

ret nvmlDeviceGetTotalEnergyConsumption(device handle, u64 *out) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_power) || !has(handle->gpu, R_energy_base))
        return NOT_SUPPORTED;
    *out = (u64)((value(handle->gpu, R_energy_base) + total(handle->gpu, R_power)) * 1000);
    return OK;
}

ret nvmlDeviceGetCurrentClocksThrottleReasons(device handle, u64 *out) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_throttle_reasons))
        return NOT_SUPPORTED;
    *out = (u64)value(handle->gpu, R_throttle_reasons);
    return OK;
}

ret nvmlDeviceGetTotalEccErrors(device handle, u32 kind, u32 counter, u64 *out) {
    ENTER_WHOLE(handle);
    (void)counter;
    enum reading reading = kind ? R_ecc_uncorrected : R_ecc_corrected;
    if (!has(handle->gpu, reading))
        return NOT_SUPPORTED;
    *out = (u64)value(handle->gpu, reading);
    return OK;
}

ret nvmlDeviceGetEccMode(device handle, u32 *now, u32 *pending) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_ecc_corrected))
        return NOT_SUPPORTED;
    *now = *pending = 1;
    return OK;
}

ret nvmlDeviceGetRemappedRows(device handle, u32 *correctable, u32 *uncorrectable, u32 *pending, u32 *failed) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_remapped_correctable))
        return NOT_SUPPORTED;
    *correctable = (u32)value(handle->gpu, R_remapped_correctable);
    *uncorrectable = (u32)value(handle->gpu, R_remapped_uncorrectable);
    *pending = (u32)value(handle->gpu, R_remapped_pending);
    *failed = (u32)value(handle->gpu, R_remapped_failed);
    return OK;
}

/* As the real one, it measures for 20 ms while the caller waits; in KB/s. */
ret nvmlDeviceGetPcieThroughput(device handle, u32 counter, u32 *out) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_pcie_rx) || !has(handle->gpu, R_pcie_blocking))
        return NOT_SUPPORTED;
    sleep_us(20000);
    *out = (u32)(value(handle->gpu, counter ? R_pcie_rx : R_pcie_tx) / 1000);
    return OK;
}

/* -- where a device sits, and what happens to it -------------------------------------------------------------- */

ret nvmlDeviceGetCpuAffinity(device handle, u32 size, unsigned long *out) {
    ENTER_WHOLE(handle);
    const struct gpu *gpu = &scenario_now()->gpus[handle->gpu];
    if (!gpu->has_cpus)
        return NOT_SUPPORTED;
    memset(out, 0, size * sizeof *out);
    memcpy(out, gpu->cpus, (size < MASK_WORDS ? size : MASK_WORDS) * sizeof *out);
    return OK;
}

ret nvmlDeviceGetMemoryAffinity(device handle, u32 size, unsigned long *out, u32 scope) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_numa_node) || scope > 1)
        return NOT_SUPPORTED;
    memset(out, 0, size * sizeof *out);
    out[0] = 1ul << (u32)value(handle->gpu, R_numa_node);
    return OK;
}

struct event_set {
    int registered[MAX_GPUS];
    double told; /* up to this moment; the driver tells nothing of what was before the set was made */
};

struct event {
    device handle;
    u64 type, number;
    u32 gpu_instance, compute_instance;
};

ret nvmlEventSetCreate(struct event_set **out) {
    ENTER(ANY);
    *out = calloc(1, sizeof **out);
    (*out)->told = wall_clock();
    return OK;
}

ret nvmlEventSetFree(struct event_set *set) {
    ENTER(ANY);
    free(set);
    return OK;
}

ret nvmlDeviceRegisterEvents(device handle, u64 types, struct event_set *set) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_events) || types != 8)
        return NOT_SUPPORTED;
    set->registered[handle->gpu] = 1;
    return OK;
}

ret nvmlEventSetWait_v2(struct event_set *set, struct event *out, u32 timeout_ms) {
    ENTER(ANY);
    double until = wall_clock() + timeout_ms / 1000.0;
    for (;;) {
        const struct scenario *scenario = scenario_now();
        const struct xid *next = NULL;
        for (int i = 0; i < scenario->xid_count; i++) {
            const struct xid *xid = &scenario->xids[i];
            int known = xid->gpu >= 0 && xid->gpu < MAX_GPUS && set->registered[xid->gpu];
            if (known && xid->at > set->told && xid->at <= wall_clock() && (!next || xid->at < next->at))
                next = xid;
        }
        if (next) {
            set->told = next->at;
            *out = (struct event){&handles[next->gpu][0], 8, next->number, ~0u, ~0u};
            return OK;
        }
        if (wall_clock() >= until)
            return TIMED_OUT;
        sleep_us(250000); /* seldom: what the simulation costs must not count as what watching costs */
    }
}

/* -- field values --------------------------------------------------------------------------------------------- */

struct field {
    u32 id, scope;
    int64_t timestamp_us, latency_us;
    u32 type;
    ret result;
    union {
        double as_double;
        u32 as_u32;
        u64 as_u64;
    } value;
};

static void put(struct field *field, int supported, u32 type, double number) {
    field->result = supported ? OK : NOT_SUPPORTED;
    field->type = type;
    field->value.as_u64 = 0;
    if (!supported)
        return;
    if (type == 1)
        field->value.as_u32 = (u32)number;
    else
        field->value.as_u64 = (u64)number;
}

static u32 links(int gpu) { return has(gpu, R_nvlink_links) ? (u32)value(gpu, R_nvlink_links) : 0; }

/* All links are up unless the scenario says how many. */
static u32 links_active(int gpu) { return has(gpu, R_nvlinks_active) ? (u32)value(gpu, R_nvlinks_active) : links(gpu); }

ret nvmlDeviceGetNvLinkState(device handle, u32 link, u32 *out) {
    ENTER_WHOLE(handle);
    if (link >= links(handle->gpu))
        return INVALID_ARGUMENT;
    *out = link < links_active(handle->gpu);
    return OK;
}

static void fill_field(int gpu, struct field *field) {
    static const struct {
        u32 id;
        enum reading reading;
        double scale;
    } plain[] = {
        {3, R_ecc_corrected, 1},           {4, R_ecc_uncorrected, 1},       {82, R_memory_temperature, 1},
        {91, R_nvlink_links, 1},           {142, R_remapped_correctable, 1}, {143, R_remapped_uncorrectable, 1},
        {144, R_remapped_pending, 1},      {145, R_remapped_failed, 1},     {189, R_power_default_limit, 1000},
        {190, R_power_limit, 1000},
    };
    static const struct {
        u32 id;
        enum reading reading;
        double scale;
    } growing[] = {
        {74, R_throttle_power, 1e9},    {76, R_throttle_sync_boost, 1e9}, {138, R_nvlink_tx, 1.0 / 1024},
        {139, R_nvlink_rx, 1.0 / 1024}, {197, R_pcie_tx, 1},              {198, R_pcie_rx, 1},
    };
    static const enum reading thermal[] = {R_throttle_thermal_sw, R_throttle_thermal_hw, R_throttle_power_brake};
    const struct scenario *scenario = scenario_now();
    field->timestamp_us = (int64_t)(wall_clock() * 1e6);
    field->latency_us = 1;
    field->result = NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i].id == field->id) {
            double scaled = value(gpu, plain[i].reading) * plain[i].scale;
            put(field, has(gpu, plain[i].reading), plain[i].id < 82 ? 3 : 1, scaled);
        }
    for (size_t i = 0; i < sizeof growing / sizeof *growing; i++)
        if (growing[i].id == field->id)
            put(field, has(gpu, growing[i].reading), 3, total(gpu, growing[i].reading) * growing[i].scale);
    if (field->id >= 269 && field->id <= 271 && scenario->thermal_fields != 269)
        put(field, 1, 1, 7); /* a setting of power smoothing stands there */
    u32 place = field->id - scenario->thermal_fields;
    if (place < sizeof thermal / sizeof *thermal)
        put(field, has(gpu, thermal[place]), 3, total(gpu, thermal[place]) * 1e9);
    if (field->id == 83)
        put(field, has(gpu, R_power) && has(gpu, R_energy_base), 3, (value(gpu, R_energy_base) + total(gpu, R_power)) * 1000);
    if (field->id == 185)
        put(field, has(gpu, R_power) && has(gpu, R_power_fields), 1, value(gpu, R_power) * 1000 + 0.5);
    if (field->id == 186)
        put(field, has(gpu, R_power_instant), 1, value(gpu, R_power_instant) * 1000 + 0.5);
    if ((field->id == 138 || field->id == 139) && field->scope != 0xffffffffu && field->result == OK)
        field->value.as_u64 = (u64)(field->value.as_u64 / (value(gpu, R_nvlink_links) > 0 ? value(gpu, R_nvlink_links) : 1));
    if (field->id == 197 || field->id == 198) {
        if (!has(gpu, R_pcie_counter_bits))
            field->result = NOT_SUPPORTED;
        else if (value(gpu, R_pcie_counter_bits) <= 32)
            field->value.as_u64 &= 0xffffffffu;
    }
    if (field->id == 165)
        put(field, field->scope < links(gpu), 1, field->scope < links_active(gpu));
    char name[24];
    snprintf(name, sizeof name, "field:%u", field->id);
    for (int i = 0; i < scenario->rule_count; i++) {
        const struct rule *rule = &scenario->rules[i];
        if (rule->kind == RULE_SLOW && !strcmp(rule->function, name) && matches(rule, name, gpu))
            sleep_us(rule->number);
        if (rule->kind == RULE_FIELD && rule->number == (long)field->id && (rule->gpu == ANY || rule->gpu == gpu))
            field->result = rule->code;
    }
}

ret nvmlDeviceGetFieldValues(device handle, int count, struct field *fields) {
    ENTER_WHOLE(handle);
    if (count < 1)
        return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++)
        fill_field(handle->gpu, &fields[i]);
    return OK;
}

/* -- processes ------------------------------------------------------------------------------------------------ */

struct process_v1 {
    u32 pid;
    u64 memory;
};
struct process_v2 {
    u32 pid;
    u64 memory;
    u32 gpu_instance, compute_instance;
};

static int process_matches(const struct process *process, device handle, char type) {
    if (process->gpu != handle->gpu || !strchr(process->types, type))
        return 0;
    return handle->mig < 0 || process->mig == handle->mig;
}

static u64 process_memory(const struct process *process) {
    if (process->memory < 0 || !has(process->gpu, R_process_memory))
        return ~0ull;
    return (u64)process->memory;
}

/* Fills what fits; says INSUFFICIENT_SIZE and the number needed when not all did. */
static ret list(device handle, char type, u32 *count, void *out, int version) {
    const struct scenario *scenario = scenario_now();
    u32 room = *count, found = 0;
    for (int i = 0; i < scenario->process_count; i++) {
        const struct process *process = &scenario->processes[i];
        if (!process_matches(process, handle, type))
            continue;
        const struct gpu *gpu = &scenario->gpus[process->gpu];
        int has_mig = process->mig >= 0 && process->mig < gpu->mig_count;
        if (found < room && out && version == 1)
            ((struct process_v1 *)out)[found] = (struct process_v1){process->pid, process_memory(process)};
        else if (found < room && out)
            ((struct process_v2 *)out)[found] = (struct process_v2){
                process->pid, process_memory(process), has_mig ? gpu->mig[process->mig].gpu_instance : ~0u,
                has_mig ? gpu->mig[process->mig].compute_instance : ~0u};
        found++;
    }
    *count = found;
    return found > room || (found && !out) ? INSUFFICIENT_SIZE : OK;
}

#define PROCESS_LIST(function, type, version)                                                                          \
    ret function(device handle, u32 *count, void *out) {                                                               \
        ENTER_DEVICE(handle);                                                                                          \
        return list(handle, type, count, out, version);                                                                \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, 'C', 1)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, 'G', 1)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, 'M', 1)

struct sample {
    u32 pid;
    u64 timestamp_us;
    u32 sm, memory, encoder, decoder;
};

static u32 sample_of(const struct process *process, const struct scenario *scenario, struct sample *out) {
    double sm = wave_at(&process->sm, scenario);
    if (process->sm.kind == WAVE_NONE || sm <= 0)
        return 0;
    *out = (struct sample){process->pid, (u64)(wall_clock() * 1e6), (u32)(sm + 0.5), (u32)(sm / 2), 0, 0};
    return 1;
}

/* Two samples per busy process, the older one at half the value: a reader must take the newest. */
static u32 samples_of(int gpu, u64 last_seen_us, struct sample *out, u32 room) {
    const struct scenario *scenario = scenario_now();
    u32 found = 0;
    for (int i = 0; i < scenario->process_count; i++) {
        struct sample newest;
        if (scenario->processes[i].gpu != gpu || !sample_of(&scenario->processes[i], scenario, &newest))
            continue;
        for (int older = 0; older < 2; older++) {
            struct sample sample = newest;
            if (older)
                sample.timestamp_us -= 300000, sample.sm /= 2;
            if (sample.timestamp_us <= last_seen_us)
                continue;
            if (out && found < room)
                out[found] = sample;
            found++;
        }
    }
    return found;
}

ret nvmlDeviceGetProcessUtilization(device handle, struct sample *out, u32 *count, u64 last_seen_us) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_process_utilization) || value(handle->gpu, R_mig_mode) > 0)
        return NOT_SUPPORTED;
    u32 room = *count;
    *count = samples_of(handle->gpu, last_seen_us, out, room);
    if (!*count)
        return NOT_FOUND;
    return !out || *count > room ? INSUFFICIENT_SIZE : OK;
}

/* -- Licenses of virtual GPUs --------------------------------------------------------------------------------- */

struct license {
    u32 code, state;
    char info[128], product[128];
    u32 enabled, year;
    unsigned short month, day, hour, minute, second;
    unsigned char expiry;
};
struct licenses {
    int supported;
    u32 count;
    struct license features[3];
};

ret nvmlDeviceGetGridLicensableFeatures_v4(device handle, struct licenses *out) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_license))
        return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->supported = 1, out->count = 1;
    out->features[0].state = (u32)value(handle->gpu, R_license);
    out->features[0].enabled = 1;
    strcpy(out->features[0].product, "NVIDIA RTX Virtual Workstation");
    return OK;
}

/* -- MIG ------------------------------------------------------------------------------------------------------ */

ret nvmlDeviceGetMigMode(device handle, u32 *now, u32 *pending) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_mig_mode))
        return NOT_SUPPORTED;
    *now = *pending = (u32)value(handle->gpu, R_mig_mode);
    return OK;
}

ret nvmlDeviceGetMaxMigDeviceCount(device handle, u32 *out) {
    ENTER_DEVICE(handle);
    *out = has(handle->gpu, R_mig_mode) ? 7 : 0;
    return OK;
}

ret nvmlDeviceGetMigDeviceHandleByIndex(device handle, u32 index, device *out) {
    ENTER_WHOLE(handle);
    if (value(handle->gpu, R_mig_mode) <= 0 || (int)index >= scenario_now()->gpus[handle->gpu].mig_count)
        return NOT_FOUND;
    *out = &handles[handle->gpu][1 + index];
    return OK;
}

ret nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device handle, device *out) {
    ENTER_DEVICE(handle);
    *out = &handles[handle->gpu][0];
    return OK;
}

ret nvmlDeviceIsMigDeviceHandle(device handle, u32 *out) {
    ENTER_DEVICE(handle);
    *out = handle->mig >= 0;
    return OK;
}

ret nvmlDeviceGetGpuInstanceId(device handle, u32 *out) {
    ENTER_DEVICE(handle);
    if (handle->mig < 0)
        return NOT_SUPPORTED;
    *out = scenario_now()->gpus[handle->gpu].mig[handle->mig].gpu_instance;
    return OK;
}

ret nvmlDeviceGetComputeInstanceId(device handle, u32 *out) {
    ENTER_DEVICE(handle);
    if (handle->mig < 0)
        return NOT_SUPPORTED;
    *out = scenario_now()->gpus[handle->gpu].mig[handle->mig].compute_instance;
    return OK;
}

/* -- what only newer drivers have ------------------------------------------------------------------------------ */

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, 'C', 2)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, 'C', 2)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', 2)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', 2)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M', 2)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M', 2)

/* Only its presence matters: it tells callers that the v3 process lists have their official layout. */
ret nvmlDeviceGetRunningProcessDetailList(device handle, void *out) {
    ENTER_DEVICE(handle);
    (void)out;
    return NOT_SUPPORTED;
}

ret nvmlDeviceGetConfComputeMemSizeInfo(device handle, void *out) {
    ENTER_WHOLE(handle);
    (void)out;
    return NOT_SUPPORTED;
}

ret nvmlDeviceGetMemoryInfo_v2(device handle, struct memory_v2 *out) {
    ENTER_DEVICE(handle);
    if (out->version != (2u << 24 | sizeof *out))
        return VERSION_MISMATCH;
    u64 all, used, reserved;
    ret found = memory(handle, &all, &used, &reserved);
    if (found == OK)
        *out = (struct memory_v2){out->version, all, reserved, all - used - reserved, used};
    return found;
}

struct temperature {
    u32 version, sensor;
    int temperature;
};

ret nvmlDeviceGetTemperatureV(device handle, struct temperature *out) {
    ENTER_WHOLE(handle);
    if (out->version != (1u << 24 | sizeof *out))
        return VERSION_MISMATCH;
    if (!has(handle->gpu, R_temperature))
        return NOT_SUPPORTED;
    out->temperature = (int)(value(handle->gpu, R_temperature) + 0.5);
    return OK;
}

ret nvmlDeviceGetCurrentClocksEventReasons(device handle, u64 *out) {
    ENTER_WHOLE(handle);
    if (!has(handle->gpu, R_throttle_reasons))
        return NOT_SUPPORTED;
    *out = (u64)value(handle->gpu, R_throttle_reasons);
    return OK;
}

struct new_sample {
    u64 timestamp_us;
    u32 pid, sm, memory, encoder, decoder, jpeg, ofa;
};
struct new_samples {
    u32 version, count;
    u64 last_seen_us;
    struct new_sample *out;
};

ret nvmlDeviceGetProcessesUtilizationInfo(device handle, struct new_samples *info) {
    ENTER_WHOLE(handle);
    if (info->version != (1u << 24 | sizeof *info))
        return VERSION_MISMATCH;
    if (!has(handle->gpu, R_process_utilization) || value(handle->gpu, R_mig_mode) > 0)
        return NOT_SUPPORTED;
    struct sample samples[2 * MAX_PROCESSES];
    u32 room = info->count, found = samples_of(handle->gpu, info->last_seen_us, samples, 2 * MAX_PROCESSES);
    for (u32 i = 0; info->out && i < found && i < room; i++)
        info->out[i] = (struct new_sample){samples[i].timestamp_us, samples[i].pid, samples[i].sm, samples[i].memory,
                                           0, 0, 0, 0};
    info->count = found;
    if (!found)
        return NOT_FOUND;
    return !info->out || found > room ? INSUFFICIENT_SIZE : OK;
}

struct attributes {
    u32 multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    u64 memory_mib;
};

ret nvmlDeviceGetAttributes_v2(device handle, struct attributes *out) {
    ENTER_DEVICE(handle);
    if (handle->mig < 0)
        return NOT_SUPPORTED;
    const struct mig *mig = &scenario_now()->gpus[handle->gpu].mig[handle->mig];
    memset(out, 0, sizeof *out);
    out->gpu_slices = out->compute_slices = (u32)atoi(mig->profile);
    out->memory_mib = (u64)mig->memory_total >> 20;
    return OK;
}

/* -- GPM ------------------------------------------------------------------------------------------------------ */

struct gpm_support {
    u32 version, supported;
};
struct gpm_sample {
    int gpu, mig;
    double taken;
};
struct gpm_metric {
    u32 id;
    ret result;
    double value;
    const char *short_name, *long_name, *unit;
};
struct gpm_get {
    u32 version, count;
    struct gpm_sample *first, *second;
    struct gpm_metric metrics[];
};

ret nvmlGpmQueryDeviceSupport(device handle, struct gpm_support *out) {
    ENTER_DEVICE(handle);
    out->supported = value(handle->gpu, R_gpm) > 0;
    return OK;
}

ret nvmlGpmSampleAlloc(struct gpm_sample **out) {
    ENTER(ANY);
    *out = calloc(1, sizeof **out);
    (*out)->gpu = -1;
    return OK;
}

ret nvmlGpmSampleFree(struct gpm_sample *sample) {
    ENTER(ANY);
    free(sample);
    return OK;
}

ret nvmlGpmSampleGet(device handle, struct gpm_sample *sample) {
    ENTER_WHOLE(handle);
    if (value(handle->gpu, R_gpm) <= 0)
        return NOT_SUPPORTED;
    *sample = (struct gpm_sample){handle->gpu, -1, wall_clock()};
    return OK;
}

ret nvmlGpmMigSampleGet(device handle, u32 gpu_instance, struct gpm_sample *sample) {
    ENTER_WHOLE(handle);
    if (value(handle->gpu, R_gpm) <= 0)
        return NOT_SUPPORTED;
    const struct gpu *gpu = &scenario_now()->gpus[handle->gpu];
    for (int mig = 0; mig < gpu->mig_count; mig++)
        if (gpu->mig[mig].gpu_instance == gpu_instance) {
            *sample = (struct gpm_sample){handle->gpu, mig, wall_clock()};
            return OK;
        }
    return NOT_FOUND;
}

static void fill_metric(const struct gpm_sample *sample, struct gpm_metric *metric) {
    static const struct {
        u32 id;
        enum reading reading;
        double scale;
    } known[] = {
        {1, R_graphics_activity, 1},      {2, R_sm_activity, 1},       {3, R_sm_occupancy, 1},
        {5, R_tensor_activity, 1},        {10, R_dram_activity, 1},    {20, R_pcie_tx, 1.0 / (1 << 20)},
        {21, R_pcie_rx, 1.0 / (1 << 20)}, {60, R_nvlink_rx, 1.0 / (1 << 20)}, {61, R_nvlink_tx, 1.0 / (1 << 20)},
    };
    const struct scenario *scenario = scenario_now();
    metric->result = NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].id != metric->id)
            continue;
        if (sample->mig >= 0) {
            const struct wave *wave = &scenario->gpus[sample->gpu].mig[sample->mig].sm_activity;
            if (metric->id > 5 || wave->kind == WAVE_NONE)
                continue;
            metric->value = wave_at(wave, scenario), metric->result = OK;
        } else if (has(sample->gpu, known[i].reading)) {
            metric->value = value(sample->gpu, known[i].reading) * known[i].scale, metric->result = OK;
        }
    }
}

ret nvmlGpmMetricsGet(struct gpm_get *get) {
    ENTER(get->second ? get->second->gpu : ANY);
    if (get->version != 1)
        return VERSION_MISMATCH;
    if (!get->first || !get->second || get->first->gpu != get->second->gpu || get->first->taken >= get->second->taken)
        return INVALID_ARGUMENT;
    for (u32 i = 0; i < get->count; i++)
        fill_metric(get->second, &get->metrics[i]);
    return OK;
}
