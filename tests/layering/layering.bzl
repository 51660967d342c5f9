"""Forbidden dependencies, as tests.

Each test is a genquery() over the closure of some targets and a script that
complains where it found a label. Data dependencies count, but for only_data().
"""

def _closure(sources):
    return "deps(set(%s))" % " ".join(sources)

def _linked(sources, target):
    """What the closure names in deps or srcs, seen from outside `target`."""
    outside = "(%s except filter('%s', %s))" % (
        _closure(sources),
        target,
        _closure(sources),
    )
    return "filter('%s', labels('deps', %s) union labels('srcs', %s))" % (
        target,
        outside,
        outside,
    )

def _query_test(name, script, expression, sources, args = []):
    native.genquery(
        name = name + "_query",
        expression = expression,
        scope = sources,
        testonly = True,
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = [script],
        args = ["$(rootpath :%s_query)" % name] + args,
        data = [":%s_query" % name],
    )

def forbidden_edge(name, sources, target, reason, allowed = None):
    """A test that fails where any of `sources` depends on `target`.

    Args:
      name: of the test.
      sources: labels whose whole closure is looked at.
      target: regular expression over labels that must not be in it.
      reason: why the edge is forbidden; printed by the failing test.
      allowed: regular expression over labels that may be in it after all.
    """
    expression = "filter('%s', %s)" % (target, _closure(sources))
    if allowed:
        expression += " except filter('%s', %s)" % (allowed, _closure(sources))
    _query_test(name, "empty.sh", expression, sources, ["'%s'" % reason])

def only_data(name, sources, target, reason):
    """A test that fails where `target` is more than data to any of `sources`.

    Args:
      name: of the test.
      sources: labels whose whole closure is looked at.
      target: regular expression over labels that may be data of others only.
      reason: why the edge is forbidden; printed by the failing test.
    """
    expression = _linked(sources, target)
    _query_test(name, "empty.sh", expression, sources, ["'%s'" % reason])

def existing_edge(name, sources, target, linked = False):
    """A test that fails where none of `sources` depends on `target`.

    It shows that the tests above can fail: the same query, asked for an edge that
    is there.

    Args:
      name: of the test.
      sources: labels whose whole closure is looked at.
      target: regular expression over labels.
      linked: ask the query of only_data().
    """
    expression = "filter('%s', %s)" % (target, _closure(sources))
    if linked:
        expression = _linked(sources, target)
    _query_test(name, "not_empty.sh", expression, sources)
