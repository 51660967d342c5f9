"""Repositories for C++ libraries that the system's packages installed."""

_MISSING = """

  @{repo} needs {what}, which is not on this machine.
  It belongs to: {packages}. Either of these installs it:
      ./bazelw (as root or with passwordless sudo)
      sudo apt-get install {packages}
  After that: bazel sync --configure
"""

_NOT_HERE = "target_compatible_with = [\"@weft//third_party:missing_on_this_machine\"]"

def _flags(ctx, pkg_config, option, modules):
    """What pkg-config says, as a list; None where it knows no such module."""
    result = ctx.execute([pkg_config, option] + modules)
    if result.return_code != 0:
        return None
    return [flag for flag in result.stdout.replace("\n", " ").split(" ") if flag]

def _last_of_each_library(flags):
    """Drops all but the last of equal -l flags: users come before what they use."""
    seen = {}
    kept = []
    for flag in reversed(flags):
        if flag.startswith("-l"):
            if flag in seen:
                continue
            seen[flag] = True
        kept.append(flag)
    return reversed(kept)

def _from_pkg_config(ctx, name, modules):
    """The attributes of a library, or a text that says what is missing."""
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        return None, "the program pkg-config"
    linkopts = _flags(ctx, pkg_config, "--libs", modules)
    if linkopts == None:
        return None, "the pkg-config module(s) " + " ".join(modules)
    defines = [
        flag[2:]
        for flag in _flags(ctx, pkg_config, "--cflags-only-other", modules)
        if flag.startswith("-D")
    ]
    includes = []
    folders = _flags(ctx, pkg_config, "--cflags-only-I", modules)
    for i, flag in enumerate(folders):
        # Bazel accepts headers inside the workspace or in the compiler's own
        # folders; everything else is linked into the repository.
        if flag[2:] != "/usr/include":
            includes.append("inc/%s/%d" % (name, i))
            ctx.symlink(flag[2:], includes[-1])
    return struct(
        linkopts = _last_of_each_library(linkopts),
        defines = defines,
        includes = includes,
    ), None

def _libraries(ctx):
    """All libraries by name, or a text that says what is missing."""
    libraries = {}
    for name, modules in ctx.attr.modules.items():
        libraries[name], missing = _from_pkg_config(ctx, name, modules)
        if missing:
            return None, missing
    for header in ctx.attr.headers:
        if not ctx.path(header).exists:
            return None, header
    for name, linkopts in ctx.attr.plain.items():
        libraries[name] = struct(linkopts = linkopts, defines = [], includes = [])
    return libraries, None

def _version_stamp(ctx):
    """A define that changes with the packages.

    Bazel does not look at /usr/include again, so without it an upgrade would leave
    objects that were compiled with the old headers.
    """
    versions = ctx.execute(["dpkg-query", "-W", "-f=${Version};"] + ctx.attr.apt)
    return "WEFT_SYS_%s=%d" % (ctx.name.upper(), hash(versions.stdout))

def _impl(ctx):
    lines = ["package(default_visibility = [\"//visibility:public\"])"]
    libraries, missing = _libraries(ctx)
    if missing and not ctx.attr.optional:
        fail(_MISSING.format(
            what = missing,
            repo = ctx.name,
            packages = " ".join(ctx.attr.apt),
        ))
    if missing:
        for name in ctx.attr.modules.keys() + ctx.attr.plain.keys():
            lines.append("cc_library(name = %r, %s)" % (name, _NOT_HERE))
    else:
        stamp = _version_stamp(ctx)
        for name, library in libraries.items():
            lines.append(
                "cc_library(name = %r, linkopts = %r, defines = %r, includes = %r, hdrs = glob([%r], allow_empty = True))" % (
                    name,
                    library.linkopts,
                    [stamp] + library.defines,
                    library.includes,
                    "inc/%s/**" % name,
                ),
            )
    ctx.file("BUILD.bazel", "\n".join(lines) + "\n")

pkg_config_repository = repository_rule(
    doc = """Makes a cc_library of each entry of `modules` and `plain`.

Where something is missing the build stops and names the packages; with
`optional`, targets that depend on the repository are skipped instead.""",
    implementation = _impl,
    attrs = {
        "apt": attr.string_list(mandatory = True, doc = "Debian packages"),
        "headers": attr.string_list(doc = "files that show that `plain` is there"),
        "modules": attr.string_list_dict(doc = "library: its pkg-config modules"),
        "optional": attr.bool(doc = "the build can do without"),
        "plain": attr.string_list_dict(
            doc = "library: its linker options, where there is no .pc file",
        ),
    },
    configure = True,
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
