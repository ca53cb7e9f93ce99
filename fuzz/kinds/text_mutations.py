"""Random mutations of the text of KTIR modules, by lines and by tokens."""

import random
import re

_TOKEN = re.compile(r"[%#@!]?[A-Za-z_][\w.$]*|\d+|[^\w\s]|\s+")
_INTEGERS = ["0", "1", "2", "3", "7", "63", "64", "65", "128", "1024", "2048", "-1", "-64"]
_LARGE = ["2147483647", "4294967296", "1099511627776", "9223372036854775807"]
_TYPES = ["f16", "f32", "bf16", "f64", "i1", "i8", "i16", "i32", "i64", "index", "none"]
_NOISE = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ",",
    ":",
    "=",
    "->",
    '"',
    "%",
    "?",
    "x",
    "\0",
    "é",
]


def mutated(lines: list[str], donors: list[str], chance: random.Random) -> list[str]:
    """Return a text with one to four mutations; `donors` are lines of other texts."""
    lines = list(lines)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        if not lines:
            break
        mutate = chance.choice((_mutate_lines, _mutate_token, _mutate_token, _mutate_token))
        mutate(lines, donors, chance)
    return lines


def _mutate_lines(lines: list[str], donors: list[str], chance: random.Random) -> None:
    index, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            del lines[index]
        case 1:
            lines.insert(other, lines[index])
        case 2:
            lines[index], lines[other] = lines[other], lines[index]
        case 3:
            lines.insert(index, chance.choice(donors))
        case 4:
            lines[index] = chance.choice(donors)
        case _:
            del lines[index : index + chance.randint(2, 8)]


def _mutate_token(lines: list[str], donors: list[str], chance: random.Random) -> None:
    index = chance.randrange(len(lines))
    tokens = _TOKEN.findall(lines[index])
    if not tokens:
        return
    place = chance.randrange(len(tokens))
    # Names, types and numbers matter more than what is between them.
    words = [position for position, token in enumerate(tokens) if token[-1:].isalnum()]
    if words and chance.random() < 0.8:
        place = chance.choice(words)
    token = tokens[place]
    if token.isdigit():
        tokens[place] = _integer(token, chance)
    elif token in _TYPES:
        tokens[place] = chance.choice(_TYPES)
    elif chance.random() < 0.6:
        tokens[place] = _similar(token, lines, donors, chance)
    else:
        match chance.randrange(4):
            case 0:
                del tokens[place]
            case 1:
                tokens.insert(place, token)
            case 2:
                tokens.insert(place, chance.choice(_NOISE))
            case _:
                tokens[place] = token[: chance.randint(0, len(token))]
    lines[index] = "".join(tokens)


def _integer(token: str, chance: random.Random) -> str:
    value = int(token)
    near = [str(value + 1), str(max(value - 1, 0)), str(2 * value), str(value // 2), f"-{value}"]
    return chance.choice(near + _INTEGERS if chance.random() < 0.95 else _LARGE)


def _similar(token: str, lines: list[str], donors: list[str], chance: random.Random) -> str:
    """Return a token of the same sort: a value for a value, an op for an op."""
    source = lines if token.startswith(("%", "#", "@")) else donors
    tokens = _TOKEN.findall(chance.choice(source))
    same = [other for other in tokens if other[:1] == token[:1] or ("." in other) == ("." in token)]
    return chance.choice(same) if same else token
