/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differences between versions of QEMU: headers that have been renamed, and
 * declarations that have changed. This file tests headers, not the version.
 */
#ifndef PIB_HCA_QEMU_H
#define PIB_HCA_QEMU_H

#define PIB_HCA_QEMU_HAS(header) __has_include(header)

#if PIB_HCA_QEMU_HAS("system/memory.h")
#include "system/address-spaces.h"
#include "system/memory.h"
#include "system/ramblock.h"
#else
#include "exec/address-spaces.h"
#include "exec/memory.h"
#include "exec/ramblock.h"
#endif

#if PIB_HCA_QEMU_HAS("system/memory_cached.h")
#include "system/memory_cached.h"
#endif

#if PIB_HCA_QEMU_HAS("qemu/aio.h")
#include "qemu/aio.h"
#else
#include "block/aio.h"
#endif

#if PIB_HCA_QEMU_HAS("hw/core/qdev-properties.h")
#include "hw/core/qdev-properties.h"
#else
#include "hw/qdev-properties.h"
#endif

/*
 * Newer versions declare the second parameter of TypeInfo.class_init const. The
 * function that is passed here has only the first parameter.
 */
#define PIB_HCA_CLASS_INIT(function)                             \
    G_GNUC_UNUSED                                                \
    static void function##_const(ObjectClass *klass,             \
                                 const void *data)               \
    {                                                            \
        function(klass);                                         \
    }                                                            \
    G_GNUC_UNUSED                                                \
    static void function##_plain(ObjectClass *klass, void *data) \
    {                                                            \
        function(klass);                                         \
    }
#define PIB_HCA_CLASS_INIT_OF(function)                                      \
    _Generic(((TypeInfo *)NULL)->class_init,                                 \
             void (*)(ObjectClass *, const void *) : function##_const,       \
             void (*)(ObjectClass *, void *) : function##_plain)

#endif /* PIB_HCA_QEMU_H */
