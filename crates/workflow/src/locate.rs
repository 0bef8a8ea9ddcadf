//! Lines of a workflow's file, for errors.

/// The line on which a field of a step stands, or else the step, counted from 1.
pub(crate) fn line_of(text: &str, step: Option<&str>, field: Option<&str>) -> Option<usize> {
    let lines = || text.lines().enumerate().map(|(at, line)| (at, line.trim()));
    let start = match step {
        None => 0,
        Some(step) => lines().find(|(_, line)| begins_step(line, step))?.0,
    };
    let of_field = field.and_then(|field| {
        let within = lines().skip(start).enumerate();
        let mut within = within.take_while(|(nth, (_, line))| {
            *nth == 0 || step.is_none() || !begins_other(line, step)
        });
        within.find(|(_, (_, line))| has_field(line, field)).map(|(_, (at, _))| at)
    });
    Some(of_field.unwrap_or(start) + 1)
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

/// The name of the step in `[steps.NAME]` or `[steps.NAME.inputs]`.
fn table(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("[steps.")?;
    Some(unquoted(rest.split([']', '.']).next()?))
}

fn begins_step(line: &str, step: &str) -> bool {
    let is_key = line.strip_prefix(&format!("\"{step}\"")).is_some_and(|rest| {
        let rest = rest.trim_start();
        rest.starts_with(':') && rest.ends_with('{')
    });
    table(line) == Some(step) || is_key
}

fn begins_other(line: &str, step: Option<&str>) -> bool {
    table(line).is_some_and(|name| Some(name) != step)
}

fn has_field(line: &str, field: &str) -> bool {
    // Within a table of its own, or among others on one line.
    let begins = |text: &str| {
        let text = text.trim_start_matches(['{', ' ', '[']);
        let rest = text.strip_prefix('"').unwrap_or(text).strip_prefix(field);
        rest.is_some_and(|rest| {
            let rest = rest.strip_prefix('"').unwrap_or(rest).trim_start();
            rest.starts_with(['=', ':'])
        })
    };
    begins(line)
        || line.split([',', '{']).any(begins)
        || line.ends_with(&format!(".{field}]"))
        || line == format!("[{field}]")
        || line == format!("[[{field}]]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_both_formats() {
        let toml = "name = \"n\"\n[steps.a]\nkind = \"call\"\ninputs = { x = \"steps.b.answer\" }\n\n[steps.b]\nkind = \"run\"\n[steps.b.inputs]\n\"y.csv\" = \"inputs.y\"\n";
        assert_eq!(line_of(toml, Some("b"), None), Some(6));
        assert_eq!(line_of(toml, Some("b"), Some("kind")), Some(7));
        assert_eq!(line_of(toml, Some("b"), Some("y.csv")), Some(9));
        assert_eq!(line_of(toml, Some("a"), Some("x")), Some(4));
        assert_eq!(line_of(toml, Some("a"), Some("when")), Some(2));
        let json = "{\"steps\": {\n  \"a\": {\n    \"kind\": \"call\"\n  },\n  \"b\" : {\n  }\n}}";
        assert_eq!(line_of(json, Some("b"), None), Some(5));
        assert_eq!(line_of(json, Some("a"), Some("kind")), Some(3));
        assert_eq!(line_of(json, Some("c"), None), None);
    }
}
