# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds everything that runs in the guests: kernel module, provider, test programs.

Each result is a directory under build/guest/IMAGE/ with the layout of a guest's root, and a stamp with the hash of its
inputs next to it. If the inputs are unchanged, nothing is built. A new result is made beside the former one, which it
replaces when it is complete.

The module is built with the guest's kernel headers, the provider inside the rdma-core source of the guest's release:
the provider's structures contain ibv_qp_ex and others, whose size differs between releases."""

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import tempfile

from lab.base import lock, paths, ui
from lab.build import builder, cache, image, kernel_module, kernel_tree, rdma_core, symbols
from lab.build.kernel_module import COMMON, MAKE

OUT = paths.guest_results()
REVISION = "3"                  # part of the cache key: increase it with each change of the code below
PROVIDER = "guest-provider"
OUR_PROVIDER = paths.ROOT / PROVIDER
PROGRAMS = "tests/guest/programs"
MULTIARCH = "usr/lib/x86_64-linux-gnu"
CMAKE_OPTIONS = ("-DCMAKE_BUILD_TYPE=RelWithDebInfo -DNO_MAN_PAGES=1 -DNO_PYVERBS=1 -DENABLE_RESOLVE_NEIGH=0 "
                 "-DENABLE_STATIC=0 -DCMAKE_INSTALL_PREFIX=/usr")


def sources(*folders: str | pathlib.Path) -> list[str | bytes]:
    """Names and contents of all files in the folders. Relative folders are folders of this checkout."""
    parts: list[str | bytes] = []
    for folder in folders:
        for path in sorted((paths.ROOT / folder).rglob("*")):
            if path.is_file() and not builder.is_product(path):
                parts += [f"{folder}/{path.relative_to(paths.ROOT / folder)}", path.read_bytes()]
    return parts


def _inputs(base: pathlib.Path, *folders: str | pathlib.Path) -> str:
    """A hash of everything that a result is made from. The path of the image's directory is a part, because results may
    contain that path. It is resolved, because an image in a second cache may be a link."""
    return paths.recipe_hash(REVISION, str(base.resolve()), image.identity(base), *sources(*folders))


def _result(base: pathlib.Path, name: str) -> pathlib.Path:
    return OUT / base.name / name


def _stamp(base: pathlib.Path, name: str) -> pathlib.Path:
    return OUT / base.name / f"{name}.stamp"


def _up_to_date(base: pathlib.Path, name: str, inputs: str) -> bool:
    stamp = _stamp(base, name)
    return _result(base, name).is_dir() and stamp.exists() and stamp.read_text() == inputs


def _new(base: pathlib.Path, name: str) -> pathlib.Path:
    """An empty directory for a new result."""
    tree = OUT / base.name / f"{name}.new"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    return tree


def _done(base: pathlib.Path, name: str, inputs: str) -> None:
    """Replaces the former result by the new one, which is complete."""
    _stamp(base, name).unlink(missing_ok=True)
    shutil.rmtree(_result(base, name), ignore_errors=True)
    (OUT / base.name / f"{name}.new").rename(_result(base, name))
    _stamp(base, name).write_text(inputs)


def unchanged() -> contextlib.AbstractContextManager[None]:
    """Keeps other commands from replacing results during the block, in which this command reads them."""
    return lock.held(OUT / cache.BUILD_LOCK)


# -- kernel module ----------------------------------------------------------

def _module_indexes(base: pathlib.Path, modules: list[pathlib.Path], tree: pathlib.Path) -> None:
    """Adds modules to a guest's tree with the indexes (modules.alias.bin, …) by which they are loaded automatically.
    This is a full depmod over hard links to the other modules."""
    version = image.kernel_version(base)
    target = tree / "usr" / "lib" / "modules" / version
    (target / "updates").mkdir(parents=True)
    for module in modules:
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


def driver(base: pathlib.Path, tools: builder.Builder, source: pathlib.Path = kernel_module.OURS) -> pathlib.Path:
    """The tree with a driver, ours or another one."""
    name = "driver" if source == kernel_module.OURS else f"driver-{paths.recipe_hash(str(source))}"
    inputs = _inputs(base, kernel_module.common(source), source)
    if _up_to_date(base, name, inputs):
        return _result(base, name)
    tree = _new(base, name)
    compiled = kernel_module.compile_for(image.kernel_version(base), tools, source)
    kernel_module.check_binds(compiled)
    _module_indexes(base, [module.stripped for module in compiled.modules], tree)
    rules = tree / "usr" / "lib" / "udev" / "rules.d"
    rules.mkdir(parents=True)
    for rule in (source / "udev").glob("*.rules"):
        shutil.copy(rule, rules)
    symbols.keep(compiled, tree.with_name(f"{name}.symbols"))
    _done(base, name, inputs)
    return _result(base, name)


# -- provider ---------------------------------------------------------------

def _configured(tools: builder.Builder, options: str) -> None:
    """Configures rdma-core's source in the working directory, with this provider added, unless that has been done.
    options: additional ones of cmake."""
    source, mark = rdma_core.source(tools.tree), tools.work / "rdma-core.configured"
    flags = f"{CMAKE_OPTIONS} {options} -DCMAKE_C_FLAGS={shlex.quote(f'-I{tools.inside}/{COMMON}')}"
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


def provider_name(source: pathlib.Path = OUR_PROVIDER) -> str:
    """The provider's name in its CMakeLists.txt."""
    file = source / "CMakeLists.txt"
    found = re.search(r"rdma_provider\(\s*(\w+)", file.read_text() if file.is_file() else "")
    if not found:
        raise ui.LabError(f"{source} has no CMakeLists.txt with  rdma_provider(NAME FILES…). Name the directory of a "
                          "provider, as it is in rdma-core's providers/")
    return found[1]


def compile_provider(tools: builder.Builder, source: pathlib.Path = OUR_PROVIDER, options: str = "") -> pathlib.Path:
    """Builds the provider of a directory inside the rdma-core source of the guest's release. options: additional ones
    of cmake."""
    name = provider_name(source)
    tools.bring(kernel_module.common(source), COMMON)
    tools.bring(source, PROVIDER)
    _configured(tools, options)
    tools.sh("building the guest's provider",
             "cd rdma-core/build; ninja build.ninja; ninja $(ninja -t targets all | "
             f"sed -n 's#^\\(lib/lib{name}-rdmav[0-9]*\\.so\\):.*#\\1#p')", "guest-provider")
    return next((tools.work / "rdma-core" / "build" / "lib").glob(f"lib{name}-rdmav*.so"))


def provider(base: pathlib.Path, tools: builder.Builder) -> None:
    inputs = _inputs(base, COMMON, PROVIDER)
    if _up_to_date(base, "provider", inputs):
        return
    tree = _new(base, "provider")
    built = compile_provider(tools)
    plugins = tree / MULTIARCH / "libibverbs"
    config = tree / "etc" / "libibverbs.d"
    plugins.mkdir(parents=True)
    config.mkdir(parents=True)
    shutil.copy(built, plugins)
    (config / f"{provider_name()}.driver").write_text(f"driver {provider_name()}\n")
    _done(base, "provider", inputs)


# -- test programs ----------------------------------------------------------

def programs(base: pathlib.Path, tools: builder.Builder) -> None:
    inputs = _inputs(base, COMMON, PROGRAMS)
    if _up_to_date(base, "programs", inputs):
        return
    tree = _new(base, "programs")
    tools.bring(paths.ROOT / COMMON, COMMON)
    tools.bring(paths.ROOT / PROGRAMS, PROGRAMS)
    tools.sh("building the guests' test programs", f"{MAKE} -C {PROGRAMS}", "guest-programs")
    target = tree / "usr" / "local" / "bin"
    target.mkdir(parents=True)
    for path in (tools.work / PROGRAMS).iterdir():
        if path.is_file() and os.access(path, os.X_OK):
            shutil.copy(path, target)
    _done(base, "programs", inputs)


PARTS = ((PROVIDER, provider), (PROGRAMS, programs))


def build(base: pathlib.Path, source: pathlib.Path | None = kernel_module.OURS) -> list[pathlib.Path]:
    """Builds everything whose source exists; returns the results' directories. source: the driver's directory, or None
    for no driver."""
    tools = builder.Builder(base)
    results = []
    rdma_core.note_use(tools.tree)
    cache.note_use(OUT)             # an entry of the cache in an installed lab
    # Containers may share a volume with the results, and each has an image with a build tree and its lock.
    with tools.locked(), unchanged():
        if source:
            results.append(driver(base, kernel_tree.tools(base), source))
        for folder, function in PARTS:
            if (paths.ROOT / folder).is_dir():
                function(base, tools)
                results.append(_result(base, function.__name__))
    return results
