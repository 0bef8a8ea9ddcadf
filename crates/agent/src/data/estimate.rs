//! Describes samples to the model, and bounds the error of figures from them.
//!
//! docs/design/0032-samples.md proves the bounds. They hold for any data and any filter: nothing
//! is assumed of how values are spread.

use super::plan::Part;
use super::sample::Drawn;
use crate::shorten::counted;

/// How much the spread of the totals in the sample counts in a bound.
pub(super) const SPREAD: u64 = 5;
/// How much the largest total counts that one key can have.
pub(super) const LARGEST: u64 = 12;
/// With what probability a figure is within its bound.
const LEVEL: &str = "99.9 %";

/// The heading of [`figures`].
const HEADING: &str = "Figures from samples";

/// How a file was made of another one.
pub(super) fn made(part: &Part, drawn: &Drawn) -> String {
    let (name, bytes) = (&part.origin.name, counted(part.origin.bytes));
    if !part.is_sample() {
        return format!("This is {name}, one record on each line. ");
    }
    let (kept, records) = (counted(drawn.kept), counted(drawn.records));
    let one_in = counted(one_in(part));
    let how = match &part.key {
        Some(key) => by_key(part, drawn, &key.name),
        None => by_record(part),
    };
    format!(
        "This is a SAMPLE: {kept} of the {records} records of {name}, which has {bytes} bytes and \
         does not fit into the sandbox. {how} Counts and sums over it are estimates: multiply them \
         by {one_in}, give their bound (see \"{HEADING}\"), and say in the answer that they are \
         from a sample. What is described below was counted over all records. "
    )
}

/// So many times as much is in the whole file.
pub(super) fn one_in(part: &Part) -> u64 {
    1 << part.halvings.min(63)
}

fn by_key(part: &Part, drawn: &Drawn, key: &str) -> String {
    let (one_in, most) = (counted(one_in(part)), counted(drawn.most));
    let together = part.together.join(", ");
    let mut text = format!(
        "Of the values of `{key}`, one in {one_in} was drawn, with all its records, and the same \
         values in {together}: a join of these files along this key lacks no record of these \
         values. Do not join it with other samples. One value has at most {most} records."
    );
    if drawn.unkeyed > 0 {
        let unkeyed = counted(drawn.unkeyed);
        text.push_str(&format!(
            " {unkeyed} records of the file have no `{key}`: one in {one_in} of them was drawn, \
             each by itself. Count them apart."
        ));
    }
    text
}

fn by_record(part: &Part) -> String {
    let one_in = counted(one_in(part));
    let mut text = format!(
        "Every record had the same chance, one in {one_in}, whatever its keys. Do not join it with \
         another sample: most matches are missing. A record without a match in it may have one in \
         the whole file."
    );
    if let Some((key, most)) = &part.unsuited {
        let most = counted(*most);
        text.push_str(&format!(
            " It was not drawn by `{key}`: one value has up to {most} records, too many for a sample \
             of this size."
        ));
    }
    text
}

/// How figures are scaled up, and their bounds.
pub(super) fn figures() -> String {
    format!(
        r#"## {HEADING}

An estimate comes with a bound. The figure over all records is within it with a probability of at least {LEVEL}, for any
data and any filter, if the code is this:

```python
def estimate(rows, key, column, one_in, most, low, high):
    """Count, sum and mean of a column over all records, each with its bound."""
    per = rows.groupby(key)[column].agg(["count", "sum"])
    n, s = per["count"], per["sum"]
    root = lambda t: float((t.astype(float) ** 2).sum()) ** 0.5
    bound = lambda t, largest: {SPREAD} * root(t) + {LARGEST} * most * largest
    count, total = n.sum(), s.sum()
    mean, sure = total / count, count - {SPREAD} * root(n)
    return {{
        "count": (one_in * count, one_in * bound(n, 1)),
        "sum": (one_in * total, one_in * bound(s, max(abs(low), abs(high)))),
        "mean": (mean, bound(s - mean * n, high - low) / sure if sure > 0 else float("inf")),
    }}
```

- `rows`: the sample, or a join along the key that samples were drawn by, filtered as the question asks.
- `key`: the column that the samples were drawn by. For one that was drawn record by record: a column that tells its
  records apart, such as `rows.reset_index()` makes before a join.
- `one_in`: as said of the sample. The same for all samples that were drawn together.
- `most`: how many rows one value of the key can have in `rows`: as said of the sample, and for a join the product over its
  files. Of a file that is here whole, count them. It is 1 for a sample that was drawn record by record, if a join does not
  repeat its records.
- `low`, `high`: the range of the column over all records, as described below, not that of the sample.

For groups, call it once for each. A bound that is larger than its figure says that the sample is too small for it."#
    )
}
