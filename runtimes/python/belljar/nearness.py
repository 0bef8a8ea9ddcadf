"""Why keys that look alike to a person are not equal.

Works on two lists of distinct keys, of at most a few thousand each. A reason
is only given if it explains enough of what did not match.
"""

import datetime
import numbers
import re

# How many keys of a side are looked at.
SAMPLE = 1000
# What is left of a number with letters before it: `deal_12`, `ACC-0007`.
LETTERED = re.compile(r"[A-Za-z]+[ _\-:#/]?0*(\d+)\Z")
DIGITS = re.compile(r"[+-]?\d+\Z")
POINT_ZERO = re.compile(r"([+-]?\d+)\.0+\Z")


def stripped(key):
    return " ".join(key.split())


def folded(key):
    return key.casefold()


def unpadded(key):
    return (key.lstrip("0") or "0") if key.isdigit() else key


def whole(key):
    match = POINT_ZERO.match(key)
    return match[1] if match else key


def everything(key):
    return unpadded(whole(folded(stripped(key))))


TEXT = (
    (stripped, "spaces", "use .str.strip() on both"),
    (folded, "upper and lower case", "use .str.lower() on both"),
    (unpadded, "leading zeros", "bring both to one width with .str.zfill(n) or .str.lstrip('0')"),
    (whole, "a trailing .0", "read the number as an integer before making it text"),
    (everything, "spaces, case, zeros or a trailing .0", "bring both to one form before joining"),
)


def kind(keys):
    """What most of the keys are."""
    counts = {}
    for key in keys:
        if isinstance(key, str):
            name = "text"
        elif isinstance(key, (datetime.date, datetime.datetime)):
            name = "date"
        elif isinstance(key, numbers.Number) and not isinstance(key, bool):
            name = "number"
        else:
            name = "other"
        counts[name] = counts.get(name, 0) + 1
    return max(counts, key=counts.get) if counts else "other"


def reason(left, right, everywhere):
    """What makes keys of `left` differ from those of `right`, and what to do.

    `everywhere`: nothing matched at all, so that bolder guesses are allowed.
    """
    known = set(right)
    unmatched = [key for key in left if key not in known]
    if not unmatched:
        return None
    kinds = kind(unmatched), kind(right)
    if kinds == ("text", "text"):
        return by_text(unmatched, right, everywhere)
    if not everywhere:
        return None
    if set(kinds) == {"text", "number"}:
        return by_number(unmatched, right)
    if "date" in kinds and set(kinds) <= {"date", "text"}:
        return by_day(unmatched, right, kinds)
    return None


def by_text(unmatched, right, everywhere):
    texts = [key for key in unmatched if isinstance(key, str)]
    others = [key for key in right if isinstance(key, str)]
    for form, what, advice in TEXT:
        found = pairs(texts, others, form)
        if enough(found, texts, others, everywhere):
            return what, advice
    if everywhere and all(DIGITS.match(key) for key in texts) != all(DIGITS.match(key) for key in others):
        found = pairs(texts, others, bare)
        if enough(found, texts, others, everywhere):
            return "a prefix", "remove the prefix from one side"
    return None


def bare(key):
    match = LETTERED.match(key)
    return match[1] if match else unpadded(key)


def by_number(unmatched, right):
    """Numbers on one side, their text on the other."""
    found = pairs([written(key) for key in unmatched], [written(key) for key in right], everything)
    what, advice = "a number on one side, text on the other", "use .astype(str) on one or pd.to_numeric on the other"
    if not enough(found, unmatched, right, True):
        found = pairs([written(key) for key in unmatched], [written(key) for key in right], bare)
        what, advice = "a number on one side, text with a prefix on the other", "remove the prefix and convert to a number"
    return (what, advice) if enough(found, unmatched, right, True) else None


def written(key):
    return str(int(key)) if isinstance(key, float) and key.is_integer() else str(key)


def by_day(unmatched, right, kinds):
    found = pairs([day(key) for key in unmatched], [day(key) for key in right], str)
    if not enough(found, unmatched, right, True):
        return None
    if kinds == ("date", "date"):
        return "the time of day", "use .dt.normalize() on both"
    return "a date on one side, text on the other", "use pd.to_datetime on the text"


def day(key):
    return str(key)[:10]


def pairs(left, right, form):
    """How many keys of the left become equal to one of the right in `form`."""
    known = {form(key) for key in right}
    return sum(form(key) in known for key in left)


def enough(found, left, right, everywhere):
    """One accident among many keys explains nothing."""
    if everywhere:
        return found >= max(1, min(len(left), len(right)) // 20)
    return found >= max(2, len(left) // 20) or found > 0 and found * 2 >= len(left)
