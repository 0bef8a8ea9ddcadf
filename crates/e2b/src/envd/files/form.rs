//! `multipart/form-data`: the names of files in it.

/// The name of a file as a form carries it: with a whole path, unlike what
/// browsers send. Quotes and line ends are coded as `%22`, `%0D` and `%0A`.
pub(super) fn file_name(disposition: &str) -> Option<String> {
    let quoted = parameter(disposition, "filename")?;
    Some(quoted.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
}

/// One parameter of a header, its quotes and backslashes taken off.
fn parameter(header: &str, name: &str) -> Option<String> {
    let mut letters = header.char_indices();
    let mut quoted = false;
    let mut starts = Vec::new();
    // Where parameters begin: after a semicolon that is in no quotes.
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' if quoted => drop(letters.next()),
            ';' if !quoted => starts.push(index + 1),
            _ => {}
        }
    }
    let value = starts.into_iter().find_map(|start| {
        let (key, value) = header.get(start..)?.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim_start())
    })?;
    let Some(inner) = value.strip_prefix('"') else {
        return Some(value.split(';').next().unwrap_or_default().trim().to_owned());
    };
    let mut text = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                // Some clients double backslashes, others do not.
                Some(next @ ('"' | '\\')) => text.push(next),
                Some(next) => text.extend(['\\', next]),
                None => break,
            },
            letter => text.push(letter),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, want: Option<&str>) {
        assert_eq!(file_name(header).as_deref(), want, "{header}");
    }

    #[test]
    fn names_are_read_with_their_paths() {
        check(r#"form-data; name="file"; filename="a/b.txt""#, Some("a/b.txt"));
        check(r#"form-data; filename="/home/ä ;x.txt"; name="file""#, Some("/home/ä ;x.txt"));
        check(r#"form-data; name="file"; filename="a%22b%0Ac""#, Some("a\"b\nc"));
        check(r#"form-data; name="file"; filename="a\\b""#, Some(r"a\b"));
        check(r#"form-data; name="file"; filename="a\b""#, Some(r"a\b"));
        check(r#"form-data; name="file"; filename="a\"b""#, Some(r#"a"b"#));
        check("form-data; name=file; filename=plain.txt", Some("plain.txt"));
        check(r#"form-data; name="a;filename=x""#, None);
        check(r#"form-data; name="file""#, None);
    }
}
