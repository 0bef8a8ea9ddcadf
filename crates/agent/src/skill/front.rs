//! The front matter of a `SKILL.md`.

/// Name and description of a skill. Other fields are passed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Front {
    pub(super) name: String,
    pub(super) description: String,
}

/// Reads the lines between the first two `---`. An indented line continues the one before it.
pub(super) fn parse(text: &str) -> Option<Front> {
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut fields: Vec<(String, String)> = Vec::new();
    loop {
        let line = lines.next()?;
        if line.trim_end() == "---" {
            break;
        }
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                let is_mark = matches!(value.as_str(), ">" | ">-" | "|" | "|-");
                let before = if is_mark { String::new() } else { std::mem::take(value) };
                *value = format!("{before} {}", line.trim()).trim().to_owned();
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    let find = |wanted: &str| {
        let mut values = fields.iter().filter(|(name, _)| name == wanted);
        let value = values.next().map(|(_, value)| unquoted(value))?;
        // A field that is there twice says nothing.
        values.next().is_none().then_some(value)
    };
    Some(Front { name: find("name")?, description: find("description")? })
}

fn unquoted(value: &str) -> String {
    let inside =
        ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    inside.unwrap_or(value).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(name: &str, description: &str) -> Option<Front> {
        Some(Front { name: name.into(), description: description.into() })
    }

    #[test]
    fn name_and_description_are_found() {
        let text = "---\nname: sales\ndescription: How deals are counted: by day.\n---\n# Sales\n";
        assert_eq!(parse(text), front("sales", "How deals are counted: by day."));
        let text = "---\r\nname: \"sales\"\r\nlicense: MIT\r\ndescription: 'Deals'\r\n---\r\n";
        assert_eq!(parse(text), front("sales", "Deals"));
        let text = "---\nname: sales\ndescription: >-\n  How deals\n  are counted.\n---\n";
        assert_eq!(parse(text), front("sales", "How deals are counted."));
    }

    #[test]
    fn other_text_is_no_front_matter() {
        for text in [
            "",
            "# Sales",
            "---\nname: sales\ndescription: d\n",
            "---\nname: sales\n---\n",
            "---\nname: a\nname: b\ndescription: d\n---\n",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
