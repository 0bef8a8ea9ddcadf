//! Sentences and words of prose.

/// A sentence without markup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence(pub(crate) String);

/// The words of a sentence in lower case. Code is one word.
pub(crate) fn words(sentence: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || "'’-_".contains(letter);
    let words = sentence.split(|letter| !is_part(letter)).map(|word| word.trim_matches('-'));
    words.filter(|word| word.contains(char::is_alphabetic)).map(str::to_lowercase).collect()
}

/// Splits prose at full stops, and at line breaks that end a paragraph.
pub(crate) fn sentences_of_text(text: &str) -> Vec<Sentence> {
    let text = without_code(text);
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut sentence = String::new();
        for word in paragraph.split_whitespace() {
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            sentence.push_str(word);
            let bare = word.trim_end_matches([')', '"', '*', '_', '”']);
            let is_short = ["e.g.", "i.e.", "etc.", "vs."].contains(&bare);
            if bare.ends_with(['.', '!', '?']) && !is_short {
                found.push(Sentence(std::mem::take(&mut sentence)));
            }
        }
        if !sentence.is_empty() {
            found.push(Sentence(sentence));
        }
    }
    found.retain(|sentence| !words(&sentence.0).is_empty());
    found
}

/// The sentences of a Markdown page with their lines; code blocks are left out, and each item of
/// a list and each cell of a table is a paragraph.
pub(crate) fn sentences_of_markdown(page: &str) -> Vec<(usize, Sentence)> {
    let mut found = Vec::new();
    let mut paragraph = (0, String::new());
    let mut in_code = false;
    let mut end = |paragraph: &mut (usize, String)| {
        let (line, text) = std::mem::take(paragraph);
        found.extend(sentences_of_text(&text).into_iter().map(|sentence| (line, sentence)));
    };
    for (index, line) in page.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            in_code = !in_code;
            end(&mut paragraph);
            continue;
        }
        if in_code {
            continue;
        }
        if let Some(row) = trimmed.strip_prefix('|') {
            end(&mut paragraph);
            for cell in row.split('|') {
                let mut cell = (index + 1, cell.trim_matches([' ', '-', ':']).to_owned());
                end(&mut cell);
            }
            continue;
        }
        let item = ["- ", "* ", "> ", "#"].iter().any(|mark| trimmed.starts_with(mark))
            || trimmed.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if trimmed.is_empty() || item || trimmed.starts_with('<') {
            end(&mut paragraph);
        }
        if trimmed.is_empty() {
            continue;
        }
        if paragraph.1.is_empty() {
            paragraph.0 = index + 1;
        }
        let text = trimmed.trim_start_matches(['-', '*', '>', '#', ' ']);
        paragraph.1.push_str(text);
        paragraph.1.push(if trimmed.starts_with('#') { '\n' } else { ' ' });
        if trimmed.starts_with('#') {
            end(&mut paragraph);
        }
    }
    end(&mut paragraph);
    found
}

/// Replaces code and addresses of links by one word.
fn without_code(text: &str) -> String {
    let mut plain = String::new();
    for (index, part) in text.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { part } else { "code" });
    }
    let mut parts = plain.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push(']');
        out.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(page: &str) -> Vec<(usize, String)> {
        let found = sentences_of_markdown(page).into_iter();
        found.map(|(line, sentence)| (line, sentence.0)).collect()
    }

    #[test]
    fn pages_are_read_by_sentence() {
        let page = "# A title\n\nOne line\nand more. Two `x. y`.\n\n```sh\nno. text\n```\n- an item\n| a | b c |\n|---|---|\n";
        let want = [
            (1, "A title"),
            (3, "One line and more."),
            (3, "Two code."),
            (9, "an item"),
            (10, "a"),
            (10, "b c"),
        ];
        assert_eq!(lines(page), want.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn links_are_their_text() {
        assert_eq!(lines("See [the docs](a/b.md#c) now."), [(1, "See [the docs] now.".to_owned())]);
        assert_eq!(
            words("See [the docs] now, e2b's 3 code-blocks."),
            ["see", "the", "docs", "now", "e2b's", "code-blocks"]
        );
    }
}
