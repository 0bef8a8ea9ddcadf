//! Names and tags of templates: `name`, `name:tag`, `tenant/name:tag`.

use crate::keys::Tenant;
use crate::problem::Problem;

/// The tag of a build that was given none, and of a name without one.
pub(crate) const DEFAULT_TAG: &str = "default";

const LONGEST: usize = 128;

/// A template's name, and perhaps which of its builds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) name: String,
    pub(crate) tag: Option<String>,
}

impl Name {
    /// Reads a name as somebody wrote it. Another tenant's namespace is refused:
    /// its templates cannot be named.
    pub(crate) fn parse(tenant: &Tenant, text: &str) -> Result<Self, Problem> {
        let (path, tag) = match text.trim().split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (text.trim(), None),
        };
        let tag = tag.map(|tag| clean("tag", tag, "-_.")).transpose()?;
        let name = match path.split_once('/') {
            Some((namespace, name)) if namespace.eq_ignore_ascii_case(tenant.as_str()) => name,
            Some((namespace, _)) => {
                let tenant = tenant.as_str();
                let message = format!("namespace '{namespace}' must match your team '{tenant}'");
                return Err(Problem::invalid(message));
            }
            None => path,
        };
        Ok(Self { name: clean("template name", name, "-_")?, tag })
    }
}

/// Checks tags, each once, in their order.
pub(crate) fn tags(texts: &[String]) -> Result<Vec<String>, Problem> {
    let mut tags = Vec::new();
    for text in texts {
        let tag = clean("tag", text, "-_.")?;
        if is_build(&tag) {
            return Err(Problem::invalid(format!("invalid tag '{tag}': a tag cannot be a UUID")));
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    Ok(tags)
}

/// Whether this has the form of a build's id.
pub(crate) fn is_build(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    lengths.iter().all(|length| parts.next().is_some_and(|p| p.len() == *length && hex(p)))
        && parts.next().is_none()
}

/// A new build's id: random, in the form of a UUID of version 4.
pub(crate) fn new_build() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = crate::secret::hex(&bytes);
    let cut = [0..8, 8..12, 12..16, 16..20, 20..32];
    Ok(cut.map(|range| &hex[range]).join("-"))
}

fn clean(what: &str, text: &str, also: &str) -> Result<String, Problem> {
    let cleaned = text.trim().to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || also.contains(c);
    if cleaned.is_empty() || cleaned.len() > LONGEST || !cleaned.chars().all(plain) {
        let shown: String = text.chars().take(LONGEST).collect();
        return Err(Problem::invalid(format!("invalid {what}: {shown}"))
            .hint(format!("use up to {LONGEST} of a-z, 0-9 and {also}")));
    }
    Ok(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let tenant = Tenant::new("team");
        let parse = |text: &str| Name::parse(&tenant, text).ok().map(|name| (name.name, name.tag));
        assert_eq!(parse("My-App"), Some(("my-app".into(), None)));
        assert_eq!(parse("app:v1.0"), Some(("app".into(), Some("v1.0".into()))));
        assert_eq!(parse("team/app"), Some(("app".into(), None)));
        for wrong in ["", ":", "app:", ":tag", "other/app", "a b", "a/b/c", "../x", "a:b:c", "ä"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_tag_is_no_build() {
        let build = new_build().unwrap();
        assert!(is_build(&build), "{build}");
        assert!(tags(&[build]).is_err());
        let given = ["v1", "V1", "latest"].map(str::to_owned);
        assert_eq!(tags(&given).unwrap(), ["v1", "latest"]);
        assert!(tags(&["name:".to_owned()]).is_err());
    }
}
