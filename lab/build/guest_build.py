# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds everything that runs in the guests: kernel module, provider, test programs.

Each result is a directory under build/guest/IMAGE/ with the layout of a guest's root, and a stamp with the hash of its
inputs next to it. If the inputs are unchanged, nothing is built.

The module is built with the guest's kernel headers, the provider inside the rdma-core source of the guest's release:
the provider's structures contain ibv_qp_ex and others, whose size differs between releases."""

import os
import pathlib
import shlex
import shutil
import tempfile

from lab import paths, ui
from lab.build import builder, rdma_core
from lab.guests import image

OUT = paths.guest_results()
REVISION = "2"                  # part of the cache key: increase it with each change of the code below
COMMON = "hw-interface"
DRIVER = "guest-driver"
PROVIDER = "guest-provider"
PROGRAMS = "tests/guest/programs"
MULTIARCH = "usr/lib/x86_64-linux-gnu"
CMAKE_OPTIONS = ("-DCMAKE_BUILD_TYPE=RelWithDebInfo -DNO_MAN_PAGES=1 -DNO_PYVERBS=1 -DENABLE_RESOLVE_NEIGH=0 "
                 "-DENABLE_STATIC=0 -DCMAKE_INSTALL_PREFIX=/usr")
# Debian compiles the kernel headers for the chroot's architecture; use all cores.
MAKE = "make -j$(nproc)"


def sources(*folders: str) -> list[str | bytes]:
    """Names and contents of all files in these folders of the checkout."""
    parts: list[str | bytes] = []
    for folder in folders:
        for path in sorted((paths.ROOT / folder).rglob("*")):
            if path.is_file() and not builder.is_product(path):
                parts += [str(path.relative_to(paths.ROOT)), path.read_bytes()]
    return parts


def _inputs(base: pathlib.Path, *folders: str) -> str:
    return paths.recipe_hash(REVISION, str(base), image.identity(base), *sources(*folders))


def _fresh(base: pathlib.Path, name: str, inputs: str) -> pathlib.Path | None:
    """An empty directory for a result; None if the present one is up to date."""
    stamp, tree = OUT / base.name / f"{name}.stamp", OUT / base.name / name
    if tree.is_dir() and stamp.exists() and stamp.read_text() == inputs:
        return None
    stamp.unlink(missing_ok=True)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    return tree


def _done(base: pathlib.Path, name: str, inputs: str) -> None:
    (OUT / base.name / f"{name}.stamp").write_text(inputs)


# -- kernel module ----------------------------------------------------------

def _module_indexes(base: pathlib.Path, module: pathlib.Path, tree: pathlib.Path) -> None:
    """Adds the module to a guest's tree with the indexes (modules.alias.bin, …) by which it is loaded automatically.
    This is a full depmod over hard links to the other modules."""
    version = image.kernel_version(base)
    target = tree / "usr" / "lib" / "modules" / version
    (target / "updates").mkdir(parents=True)
    shutil.copy(module, target / "updates" / module.name)
    with tempfile.TemporaryDirectory(dir=base) as name:
        copy = pathlib.Path(name) / "lib" / "modules" / version
        shutil.copytree(base / "modules" / "lib" / "modules" / version, copy, copy_function=os.link,
                        symlinks=True)
        shutil.copytree(target / "updates", copy / "updates")
        for index in copy.glob("modules.*"):
            _unlink_shared(index)
        ui.run("indexing kernel modules", ["depmod", "-b", name, version], "guest-driver")
        for index in copy.glob("modules.*"):
            shutil.copy(index, target / index.name)


def _unlink_shared(path: pathlib.Path) -> None:
    """Replaces a hard link by a copy, so that writes do not change the original."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def driver(base: pathlib.Path, tools: builder.Builder) -> None:
    inputs = _inputs(base, COMMON, DRIVER)
    tree = _fresh(base, "driver", inputs)
    if tree is None:
        return
    tools.bring(paths.ROOT / COMMON, COMMON)
    tools.bring(paths.ROOT / DRIVER, DRIVER)
    headers = f"/usr/src/linux-headers-{image.kernel_version(base)}"
    tools.sh("building the guest's driver", f"{MAKE} -C {DRIVER} KDIR={headers}", "guest-driver")
    _module_indexes(base, next((tools.work / DRIVER).glob("*.ko")), tree)
    rules = tree / "usr" / "lib" / "udev" / "rules.d"
    rules.mkdir(parents=True)
    for rule in (paths.ROOT / DRIVER / "udev").glob("*.rules"):
        shutil.copy(rule, rules)
    _done(base, "driver", inputs)


# -- provider ---------------------------------------------------------------

def _configured(tools: builder.Builder) -> None:
    """The source of rdma-core in the working directory, with this provider added."""
    source, mark = rdma_core.source(tools.tree), tools.work / "rdma-core.configured"
    flags = f"{CMAKE_OPTIONS} -DCMAKE_C_FLAGS={shlex.quote(f'-I{tools.inside}/{COMMON}')}"
    recipe = paths.recipe_hash(REVISION, source.name, flags)
    if mark.exists() and mark.read_text() == recipe:
        return
    mark.unlink(missing_ok=True)
    tree = tools.work / "rdma-core"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree, symlinks=True)
    rdma_core.add_provider(tree, f"../../{PROVIDER}")
    tools.sh("configuring rdma-core", f"cmake -S rdma-core -B rdma-core/build -G Ninja {flags}", "guest-provider")
    mark.write_text(recipe)


def _provider_name() -> str:
    text = (paths.ROOT / PROVIDER / "CMakeLists.txt").read_text()
    return text.partition("rdma_provider(")[2].split()[0]


def compile_provider(tools: builder.Builder) -> pathlib.Path:
    """Builds the provider as a library of that rdma-core."""
    name = _provider_name()
    tools.bring(paths.ROOT / COMMON, COMMON)
    tools.bring(paths.ROOT / PROVIDER, PROVIDER)
    _configured(tools)
    tools.sh("building the guest's provider",
             "cd rdma-core/build; ninja $(ninja -t targets all | "
             f"sed -n 's#^\\(lib/lib{name}-rdmav[0-9]*\\.so\\):.*#\\1#p')", "guest-provider")
    return next((tools.work / "rdma-core" / "build" / "lib").glob(f"lib{name}-rdmav*.so"))


def provider(base: pathlib.Path, tools: builder.Builder) -> None:
    inputs = _inputs(base, COMMON, PROVIDER)
    tree = _fresh(base, "provider", inputs)
    if tree is None:
        return
    built = compile_provider(tools)
    plugins = tree / MULTIARCH / "libibverbs"
    config = tree / "etc" / "libibverbs.d"
    plugins.mkdir(parents=True)
    config.mkdir(parents=True)
    shutil.copy(built, plugins)
    (config / f"{_provider_name()}.driver").write_text(f"driver {_provider_name()}\n")
    _done(base, "provider", inputs)


# -- test programs ----------------------------------------------------------

def programs(base: pathlib.Path, tools: builder.Builder) -> None:
    inputs = _inputs(base, COMMON, PROGRAMS)
    tree = _fresh(base, "programs", inputs)
    if tree is None:
        return
    tools.bring(paths.ROOT / COMMON, COMMON)
    tools.bring(paths.ROOT / PROGRAMS, PROGRAMS)
    tools.sh("building the guests' test programs", f"{MAKE} -C {PROGRAMS}", "guest-programs")
    target = tree / "usr" / "local" / "bin"
    target.mkdir(parents=True)
    for path in (tools.work / PROGRAMS).iterdir():
        if path.is_file() and os.access(path, os.X_OK):
            shutil.copy(path, target)
    _done(base, "programs", inputs)


PARTS = ((DRIVER, driver), (PROVIDER, provider), (PROGRAMS, programs))


def build(base: pathlib.Path) -> list[pathlib.Path]:
    """Builds everything whose source exists; returns the results' directories."""
    tools = builder.Builder(base)
    results = []
    rdma_core.note_use(tools.tree)
    with tools.locked():
        for folder, function in PARTS:
            if (paths.ROOT / folder).is_dir():
                function(base, tools)
                results.append(OUT / base.name / function.__name__)
    return results
