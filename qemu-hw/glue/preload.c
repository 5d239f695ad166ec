/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libpib-hca.so, for LD_PRELOAD: adds the device to an unmodified QEMU.
 *
 * LD_PRELOAD reaches every process of a command line, so this file needs no
 * symbol of QEMU, and does nothing in other programs. In a QEMU system emulator
 * of the version that it was built for, it loads pib-hca-device.so from its own
 * folder before main() collects the device types. It removes itself from
 * LD_PRELOAD for QEMU's child processes.
 */
#define _GNU_SOURCE /* dladdr() */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICE_MODULE "pib-hca-device.so"
#define VERSION_SIZE 32

/* QEMU's QAPI type VersionTriple (qapi/control.json, since 2.0). */
struct VersionTriple {
    int64_t major;
    int64_t minor;
    int64_t micro;
};

/* The first members of QEMU's QAPI type VersionInfo. */
struct VersionInfo {
    struct VersionTriple *qemu;
    char *package;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void get_version(struct VersionInfo *(*query)(void *), char *out)
{
    struct VersionInfo *info = query(NULL);

    snprintf(out, VERSION_SIZE, "%d.%d.%d", (int)info->qemu->major,
             (int)info->qemu->minor, (int)info->qemu->micro);
    free(info->qemu);
    free(info->package);
    free(info);
}

/* Removes this object's entry from LD_PRELOAD and keeps the others. */
static void leave_ld_preload(const char *self)
{
    const char *old = getenv("LD_PRELOAD");
    char *copy = old ? strdup(old) : NULL;
    char *kept = old ? calloc(1, strlen(old) + 1) : NULL;
    char *rest = NULL;

    if (!copy || !kept) {
        goto out;
    }
    for (char *entry = strtok_r(copy, ": ", &rest); entry;
         entry = strtok_r(NULL, ": ", &rest)) {
        if (strcmp(base_name(entry), base_name(self)) != 0) {
            strcat(kept, *kept ? ":" : "");
            strcat(kept, entry);
        }
    }
    if (*kept) {
        setenv("LD_PRELOAD", kept, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
out:
    free(copy);
    free(kept);
}

static void load_device(const char *self)
{
    int folder_length = (int)(base_name(self) - self);
    char path[4096];

    snprintf(path, sizeof(path), "%.*s%s", folder_length, self, DEVICE_MODULE);
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr,
                "pib-hca: cannot load the device into this QEMU: %s: install "
                "qemu-pib-hca again, or build pib-hca again\n",
                dlerror());
        exit(1);
    }
}

static void __attribute__((constructor)) pib_hca_preload(void)
{
    struct VersionInfo *(*query)(void *);
    char version[VERSION_SIZE];
    Dl_info self;

    /* System emulators export this symbol if they are built with modules. */
    *(void **)&query = dlsym(RTLD_DEFAULT, "qmp_query_version");
    if (!query || !dladdr((void *)pib_hca_preload, &self)) {
        return;
    }
    leave_ld_preload(self.dli_fname);
    get_version(query, version);
    if (strcmp(version, PIB_QEMU_VERSION) != 0) {
        fprintf(stderr,
                "pib-hca: built for QEMU %s, but this is QEMU %s: use the "
                "package qemu-pib-hca that fits this QEMU, or build pib-hca "
                "again from its sources (./pib qemu-headers, then meson setup "
                "--reconfigure build)\n",
                PIB_QEMU_VERSION, version);
        exit(1);
    }
    load_device(self.dli_fname);
}
