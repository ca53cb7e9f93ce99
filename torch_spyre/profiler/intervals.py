"""Unions of intervals: sorted lists of disjoint pairs of begin and end."""

from collections.abc import Iterable

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the intervals without overlaps; adjacent ones become one, empty ones none."""
    result: list[Interval] = []
    for begin, end in sorted(intervals):
        if begin >= end:
            continue
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def intersection(first: list[Interval], second: list[Interval]) -> list[Interval]:
    """Return what two unions have in common."""
    result = []
    i = j = 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            result.append((begin, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return result


def difference(first: list[Interval], second: list[Interval]) -> list[Interval]:
    """Return the part of a union that another one does not cover."""
    result = []
    j = 0
    for begin, end in first:
        position = begin
        while j < len(second) and second[j][1] <= position:
            j += 1
        k = j
        while k < len(second) and second[k][0] < end:
            if second[k][0] > position:
                result.append((position, second[k][0]))
            position = max(position, second[k][1])
            k += 1
        if position < end:
            result.append((position, end))
    return result


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)
