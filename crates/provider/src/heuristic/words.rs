//! Words of questions and of columns, made comparable.

/// Words that name nothing, and need not.
const SMALL: &str = "a about all among an and any are as at average avg be been best between biggest \
    bottom by can common compute correlate correlated correlation count data dataset deviation did \
    different distinct do does each entry every fewest find first for frequency frequent from give \
    greatest had has have highest how i if in is it its largest least line list longest lowest many \
    max maximum me mean median min minimum most much my number observation of often on or our overall \
    pearson per please rank record row shortest show smallest spread std sum tell than that the their \
    them there these this to top total typical unique was we were what when where which who whose \
    with within worst across altogether you your came come could just know pls plz see seen thank took \
    up want would got";

/// Of these, the ones that change nothing, wherever they stand.
const FILLER: &str = "a about all among an and any are as at be been calculate can compute data \
    dataset did do does find for from get give had has have how i in is it its list me my of on or \
    our please show tell that the their them there these this to was we were what with you your \
    value row record entry line observation altogether overall much many came come could just know pls \
    plz see thank took up want would got display print hi hello";

/// What columns are called to save letters.
const ABBREVIATIONS: [(&str, &str); 24] = [
    ("acct", "account"),
    ("addr", "address"),
    ("amt", "amount"),
    ("arr", "arrival"),
    ("cat", "category"),
    ("cust", "customer"),
    ("dep", "departure"),
    ("dept", "department"),
    ("dest", "destination"),
    ("dist", "distance"),
    ("dur", "duration"),
    ("emp", "employee"),
    ("hr", "hour"),
    ("loc", "location"),
    ("mgr", "manager"),
    ("prod", "product"),
    ("qty", "quantity"),
    ("rev", "revenue"),
    ("sec", "second"),
    ("src", "source"),
    ("temp", "temperature"),
    ("txn", "transaction"),
    ("wt", "weight"),
    ("yr", "year"),
];

pub(super) fn is_filler(word: &str) -> bool {
    FILLER.split_whitespace().any(|filler| stem(filler) == word)
}

pub(super) fn is_small(word: &str) -> bool {
    SMALL.split_whitespace().any(|small| stem(small) == word)
}

/// The words of a text or a name: `dealAmount`, `deal_amount` and `Deals' amounts`
/// are all "deal amount".
pub(super) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    let text = text.replace('’', "'");
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // "What's" is "what"; "companies'" are companies.
        if letter == '\'' && !word.is_empty() && letters.next_if(|next| *next == 's').is_some() {
            if letters.peek().is_some_and(|next| next.is_alphanumeric()) {
                words.push(std::mem::take(&mut word));
                word.push('s');
            }
            continue;
        }
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower) {
            words.push(std::mem::take(&mut word));
        }
        was_lower = letter.is_lowercase();
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
    }
    words.push(word);
    words.iter().filter(|word| !word.is_empty()).map(|word| stem(word)).collect()
}

/// The singular, roughly.
fn stem(word: &str) -> String {
    let cut = |end: &str, instead: &str| {
        let front = word.strip_suffix(end)?;
        (front.chars().count() >= 3).then(|| format!("{front}{instead}"))
    };
    if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word.to_owned();
    }
    cut("ies", "y").or_else(|| cut("s", "")).unwrap_or_else(|| word.to_owned())
}

/// How alike two words are, in hundredths.
pub(super) fn likeness(first: &str, second: &str) -> u32 {
    let (short, long) = if first.len() <= second.len() { (first, second) } else { (second, first) };
    match () {
        () if first == second => 100,
        () if ABBREVIATIONS.iter().any(|(brief, full)| *brief == short && *full == long) => 100,
        // "engage" and "engagement", but not "deal" and "dealership".
        () if short.len() >= 4 && long.starts_with(short) && long.len() - short.len() <= 4 => 60,
        () => 0,
    }
}

/// How well a name is meant by these words, in hundredths of its own words; more for
/// names of several words that are all meant.
pub(super) fn meant(name: &str, words: &[String]) -> u32 {
    let own = split(name);
    let best = |part: &String| words.iter().map(|word| likeness(part, word)).max().unwrap_or(0);
    let sum: u32 = own.iter().map(best).sum();
    let count = u32::try_from(own.len()).unwrap_or(u32::MAX).max(1);
    let share = sum / count;
    if share == 100 { share + 10 * count.min(4) } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_become_alike() {
        assert_eq!(split("dealAmount"), ["deal", "amount"]);
        assert_eq!(split("deals.total_amounts"), ["deal", "total", "amount"]);
        assert_eq!(split("Which companies' status?"), ["which", "company", "status"]);
        assert_eq!(split("What's Anna's share?"), ["what", "anna", "share"]);
        assert_eq!(split(""), Vec::<String>::new());
    }

    #[test]
    fn longer_names_that_are_wholly_meant_come_first() {
        let words = split("What is the average deal size by sales stage?");
        assert!(meant("deal_size", &words) > meant("deal_id", &words));
        assert!(meant("deal_size", &words) > meant("size", &words));
        assert_eq!(meant("colour", &words), 0);
        assert!(meant("engagement", &split("who engages most")) > 0);
    }
}
