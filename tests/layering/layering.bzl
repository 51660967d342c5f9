"""Forbidden dependencies, as tests."""

def forbidden_edge(name, sources, target, reason):
    """A test that fails where any of `sources` depends on `target`.

    Args:
      name: of the test.
      sources: labels whose whole closure is looked at.
      target: label that must not be in it, or a regular expression over labels
        that starts with "^".
      reason: why the edge is forbidden; printed by the failing test.
    """
    if target.startswith("^"):
        expression = "filter('%s', deps(set(%s)))" % (target, " ".join(sources))
    else:
        expression = "filter('^%s$', deps(set(%s)))" % (target, " ".join(sources))
    native.genquery(
        name = name + "_query",
        expression = expression,
        scope = sources,
        testonly = True,
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["empty.sh"],
        args = ["$(rootpath :%s_query)" % name, "'%s'" % reason],
        data = [":%s_query" % name],
    )
