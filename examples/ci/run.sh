#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: [PIB=/path/to/pib] run.sh [OPTIONS]     options are those of pib ci
set -eu
cd "$(dirname "$0")"
exec "${PIB:-pib}" ci "$@" -- ./test.sh
