/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the process of lying_device.c, its kernel and its device. */
#pragma once

#include <config.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pib-abi.h"
#include "pib.h"

enum { CQS = 3, QPS = 5, SRQS = 3, MOST_STEPS = 300, PAGE = 4096 };

struct lying_world {
    const uint8_t* input;
    size_t left;
    struct pib_device device;
    struct pib_context* context;
    struct pib_pd pd;
    struct pib_pd domain;
    struct pib_ah ah;
    struct ibv_cq* cqs[CQS];
    struct ibv_qp* qps[QPS];
    struct ibv_srq* srqs[SRQS];
    bool slow; /* the next destruction waits for `acknowledged` */
    bool late; /* it has waited up to a limit that only a hang reaches */
    sem_t in_kernel, acknowledged;
};

extern struct lying_world now;

/* The next bytes of the input; 0 at its end. */
uint8_t byte(void);
uint32_t word(void);
/* Mostly a small number, so that several objects get the same number. */
uint32_t lie(void);

/* begin_life() makes the context of the process; end_life() destroys it with all its objects. */
void begin_life(void);
void end_life(void);
