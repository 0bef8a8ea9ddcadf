//! Formats of settings that several managers share.

/// One setting of an INI file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) section: String,
    pub(super) key: String,
    pub(super) value: String,
}

/// As Python reads them: `key = value` or `key: value`, and a line that begins
/// with space goes on with the value before.
pub(super) fn python(text: &str) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    let mut section = String::new();
    let mut goes_on = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let (true, true, Some(last)) =
            (goes_on, line.starts_with([' ', '\t']), settings.last_mut())
        {
            last.value.push('\n');
            last.value.push_str(trimmed);
        } else if let Some(name) = trimmed.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
            goes_on = false;
        } else if let Some((key, value)) = trimmed.split_once(['=', ':']) {
            settings.push(Setting {
                section: section.clone(),
                key: key.trim().to_ascii_lowercase().replace('_', "-"),
                value: value.trim().to_owned(),
            });
            goes_on = true;
        }
    }
    settings
}

/// As npm reads them: `key = value`, quotes around either are dropped, and
/// `${NAME}` in a value is the variable of that name, if there is one.
pub(super) fn npm(text: &str, variable: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for line in text.lines().map(str::trim) {
        // What stands in a section is not a setting of npm's.
        if line.starts_with('[') {
            break;
        }
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            let value = expand(unquote(value.trim()), &variable);
            settings.push((unquote(key.trim()).to_owned(), value));
        }
    }
    settings
}

pub(super) fn unquote(text: &str) -> &str {
    let inner = |mark: char| text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn expand(text: &str, variable: &impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&variable(name).unwrap_or_default());
        rest = after;
    }
    out + rest
}

/// The text between the first pair of quotes, of either kind.
pub(super) fn quoted(text: &str) -> Option<&str> {
    let begin = text.get(text.find(['"', '\''])?..)?;
    let mut rest = begin.chars();
    let mark = rest.next()?;
    rest.as_str().split_once(mark).map(|(inner, _)| inner)
}
