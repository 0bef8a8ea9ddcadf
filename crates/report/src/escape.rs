//! Text in HTML.

/// Writes text so that it is only text, between tags and within quotes. Control characters other
/// than white space become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // A parser replaces it, and so would change the bytes.
            '\0' => {}
            letter if is_direction(letter) => {}
            letter if letter.is_control() && !matches!(letter, '\t' | '\n' | '\r') => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            letter => out.push(letter),
        }
    }
    out
}

/// Returns true for characters that change the order in which their neighbours are shown. In names
/// of files and models they only deceive.
pub(crate) fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_only_text() {
        assert_eq!(escape("<a b=\"c\" d='e'>&\0"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
        assert_eq!(escape("sales\u{202e}gnp.csv"), "salesgnp.csv");
        assert_eq!(escape("\u{1b}[2J\ta\r\nb\u{9b}"), "\u{fffd}[2J\ta\r\nb\u{fffd}");
    }
}
