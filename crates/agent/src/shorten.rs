//! What of an output the model is shown: its beginning and its end, with exact counts.

/// What one call costs the model at most, in characters.
pub const MOST_SHOWN: usize = 4_000;

/// A text that fits, and how much of the whole it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortened {
    pub text: String,
    /// Characters of the whole, and those of it that are in `text`.
    pub total: usize,
    pub shown: usize,
}

impl Shortened {
    pub fn is_cut(&self) -> bool {
        self.shown < self.total
    }
}

/// At most `most` characters of `text`; of what is longer, a note in the middle
/// says how much is missing and where all of it is.
pub fn shorten(text: &str, most: usize, whole: Option<&str>) -> Shortened {
    let total = text.chars().count();
    if total <= most {
        return Shortened { text: text.to_owned(), total, shown: total };
    }
    let note = |missing: usize| {
        let place = whole.map(|path| format!("; all of it is in {path}")).unwrap_or_default();
        format!(
            "\n[... {} of {} characters left out{place} ...]\n",
            counted(missing),
            counted(total)
        )
    };
    // A note about fewer characters is never longer than this one.
    let room = most.saturating_sub(note(total).chars().count());
    let tail = room * 2 / 5;
    let head = room - tail;
    let end = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let begin = match tail {
        0 => text.len(),
        tail => text.char_indices().rev().nth(tail - 1).map_or(0, |(at, _)| at),
    };
    let note = note(total - room);
    let text = format!("{}{note}{}", &text[..end], &text[begin..]);
    Shortened { text, total, shown: room }
}

/// A number with its thousands apart: `50,000,000`.
pub(crate) fn counted(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or(u64::MAX).to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let text = "ä".repeat(MOST_SHOWN);
        let shown = shorten(&text, MOST_SHOWN, None);
        assert_eq!((shown.is_cut(), shown.text), (false, text));
    }

    #[test]
    fn what_is_longer_has_both_ends_and_exact_counts() {
        let text: String = (b'a'..=b'z').cycle().take(9_000_000).map(char::from).collect();
        let text = format!("<{text}ü>");
        let cut = shorten(&text, MOST_SHOWN, Some("/home/user/.belljar/3.txt"));
        assert!(cut.is_cut() && cut.text.chars().count() <= MOST_SHOWN);
        assert!(cut.text.starts_with('<') && cut.text.ends_with("ü>"));
        let missing = counted(cut.total - cut.shown);
        let note = format!(
            "[... {missing} of 9,000,003 characters left out; all of it is in /home/user/.belljar/3.txt ...]"
        );
        assert!(cut.text.contains(&note), "{}", cut.text);
        let kept = cut.text.chars().count() - note.chars().count() - 2;
        assert_eq!(kept, cut.shown);
    }

    #[test]
    fn a_limit_that_holds_no_note_still_holds() {
        for most in 0..80 {
            let cut = shorten(&"x".repeat(100), most, None);
            assert!(cut.shown <= most, "{most}");
        }
    }

    #[test]
    fn thousands_are_apart() {
        assert_eq!(
            [0_u64, 999, 1000, 50_000_000].map(counted),
            ["0", "999", "1,000", "50,000,000"]
        );
    }
}
