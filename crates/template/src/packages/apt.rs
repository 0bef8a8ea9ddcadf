//! Debian bases, by `mmdebstrap` and from the mirror that the host itself uses.
//!
//! No archive is named here: the host's own apt configuration says where Debian
//! comes from and which keys sign it. For another suite than the host's, the
//! same mirrors are asked with the suite's name changed.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::confined::{Attributes, Root};
use crate::file::{self, at};
use crate::tool::{self, Inherit, ToolError};

/// One entry of apt's sources, in either of its formats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    /// A path, or a key itself in deb822's folded form.
    signed_by: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum AptError {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(
        "this host's apt has no Debian archive for `{suite}`; set a mirror in the build options"
    )]
    NoMirror { suite: String },
    #[error("only root can build a Debian base")]
    NeedsRoot,
}

/// What to install, and from where.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) program: &'a str,
    pub(crate) suite: &'a str,
    pub(crate) packages: &'a [String],
    /// Instead of the host's own.
    pub(crate) mirror: Option<&'a str>,
    pub(crate) timeout: Duration,
}

/// Makes a root filesystem in `target`, using `work` for files of its own.
pub(crate) fn bootstrap(
    request: &Request<'_>,
    work: &Path,
    target: &Path,
    output: &mut dyn FnMut(&[u8]),
) -> Result<(), AptError> {
    // Unprivileged modes would leave files owned by a range of other ids, which
    // the caller could neither seal nor remove.
    if !rustix::process::geteuid().is_root() {
        return Err(AptError::NeedsRoot);
    }
    let sources = choose(Path::new("/etc"), request.suite, request.mirror)?;
    let list = work.join("debian.sources");
    fs::write(&list, render(&sources)).map_err(at("write", &list))?;

    let mut arguments: Vec<OsString> =
        ["--variant=minbase", "--format=directory"].map(OsString::from).into();
    if !request.packages.is_empty() {
        arguments.push(format!("--include={}", request.packages.join(",")).into());
    }
    for option in host_options(request.timeout) {
        arguments.push(format!("--aptopt={option}").into());
    }
    arguments.extend([request.suite.into(), target.into(), list.into()]);
    tool::run(request.program, &arguments, Inherit::Least, request.timeout, output)?;

    // What the tool notes about this host and its mirror is not the template's.
    let root = Root::open(target).map_err(at("open", target))?;
    let cleaned = root
        .remove(Path::new("etc/apt/apt.conf.d/99mmdebstrap"))
        .and_then(|()| root.remove(Path::new("etc/apt/sources.list")))
        .and_then(|()| root.clear(Path::new("etc/apt/sources.list.d")))
        .and_then(|()| {
            let list = render(&without_credentials(sources));
            let path = Path::new("etc/apt/sources.list.d/debian.sources");
            root.file(path, &mut list.as_bytes(), &Attributes::root(0o644)).map(drop)
        });
    Ok(cleaned.map_err(at("write", target))?)
}

/// The host's proxies and certificate settings for apt, which the bootstrap
/// would not look for by itself.
fn host_options(timeout: Duration) -> Vec<String> {
    let mut text = Vec::new();
    let arguments = ["dump", "--format", "%f \"%v\";%n", "Acquire"].map(OsString::from);
    let asked = tool::run("apt-config", &arguments, Inherit::Least, timeout, &mut |bytes| {
        text.extend_from_slice(bytes);
    });
    if asked.is_err() {
        return Vec::new();
    }
    let wanted = |line: &&str| {
        let name = line.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        let set = !line.ends_with(" \"\";");
        set && (name.contains("::proxy") || name.ends_with("::cainfo"))
    };
    String::from_utf8_lossy(&text).lines().filter(wanted).map(str::to_owned).collect()
}

/// The sources of `suite`, by the apt configuration under `etc`.
fn choose(etc: &Path, suite: &str, mirror: Option<&str>) -> Result<Vec<Source>, AptError> {
    if let Some(mirror) = mirror {
        return Ok(vec![Source {
            uris: vec![mirror.to_owned()],
            suites: vec![suite.to_owned()],
            components: vec!["main".to_owned()],
            signed_by: None,
        }]);
    }
    let release = fs::read_to_string(etc.join("os-release")).unwrap_or_default();
    let value = |key: &str| {
        let mut values = release.lines().filter_map(|line| line.strip_prefix(key));
        values.next().map(|value| value.trim_matches('"').to_owned())
    };
    let (id, codename) = (value("ID="), value("VERSION_CODENAME="));
    let sources = match (id.as_deref(), codename) {
        (Some("debian"), Some(codename)) => for_suite(&read(etc)?, &codename, suite),
        _ => Vec::new(),
    };
    if sources.is_empty() {
        return Err(AptError::NoMirror { suite: suite.to_owned() });
    }
    Ok(sources)
}

fn read(etc: &Path) -> Result<Vec<Source>, file::Error> {
    let mut paths: Vec<PathBuf> = vec![etc.join("apt/sources.list")];
    if let Ok(entries) = fs::read_dir(etc.join("apt/sources.list.d")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let parse: fn(&str) -> Vec<Source> = match path.extension().and_then(|e| e.to_str()) {
            Some("list") => parse_lines,
            Some("sources") => parse_deb822,
            _ => continue,
        };
        match fs::read_to_string(&path) {
            Ok(text) => sources.extend(parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(at("read", &path)(error)),
        }
    }
    Ok(sources)
}

/// `deb [option=value …] uri suite component…`
fn parse_lines(text: &str) -> Vec<Source> {
    let parse = |line: &str| {
        let line = line.split('#').next()?.trim();
        let mut rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
        let mut signed_by = None;
        if let Some(options) = rest.strip_prefix('[') {
            let (options, after) = options.split_once(']')?;
            let mut values =
                options.split_whitespace().filter_map(|o| o.strip_prefix("signed-by="));
            signed_by = values.next().map(str::to_owned);
            rest = after;
        }
        let mut words = rest.split_whitespace().map(str::to_owned);
        Some(Source {
            uris: vec![words.next()?],
            suites: vec![words.next()?],
            components: words.collect(),
            signed_by,
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Stanzas of `Field: value`, where a value goes on in lines that start with a
/// space; see sources.list(5).
fn parse_deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t']) && !line.trim().is_empty() {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        } else if line.trim().is_empty() && !fields.is_empty() {
            sources.extend(stanza(&std::mem::take(&mut fields)));
        }
    }
    sources
}

fn stanza(fields: &[(String, String)]) -> Option<Source> {
    let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let words = |name| field(name).unwrap_or("").split_whitespace().map(str::to_owned).collect();
    let enabled = !matches!(field("enabled"), Some("no" | "false" | "0"));
    let binary = field("types").unwrap_or("").split_whitespace().any(|kind| kind == "deb");
    (enabled && binary).then(|| Source {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by: field("signed-by").map(str::to_owned),
    })
}

/// The entries that carry the host's own release, turned to `suite`.
///
/// Other archives may use Debian's suite names, too; those of Debian itself
/// have the component `main`. Unstable has no updates beside it.
fn for_suite(sources: &[Source], codename: &str, suite: &str) -> Vec<Source> {
    let rolling = ["sid", "unstable", "experimental"].contains(&suite);
    let turned = |name: &String| match name.strip_prefix(codename)? {
        "" => Some(suite.to_owned()),
        rest @ ("-updates" | "-security") if !rolling => Some(format!("{suite}{rest}")),
        _ => None,
    };
    let debian = sources.iter().filter(|source| source.components.iter().any(|c| c == "main"));
    debian
        .map(|source| Source {
            suites: source.suites.iter().filter_map(turned).collect(),
            components: vec!["main".to_owned()],
            ..source.clone()
        })
        .filter(|source| !source.suites.is_empty())
        .collect()
}

fn render(sources: &[Source]) -> String {
    let mut text = String::new();
    for source in sources {
        let words = |list: &[String]| list.join(" ");
        let _ = write!(
            text,
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\n",
            words(&source.uris),
            words(&source.suites),
            words(&source.components)
        );
        if let Some(key) = &source.signed_by {
            // A key given in full starts on the next line.
            let gap = if key.starts_with('\n') { "" } else { " " };
            let _ = writeln!(text, "Signed-By:{gap}{key}");
        }
        text.push('\n');
    }
    text
}

/// A mirror's user and password are the host's, not the template's.
fn without_credentials(mut sources: Vec<Source>) -> Vec<Source> {
    for uri in sources.iter_mut().flat_map(|source| &mut source.uris) {
        if let Some((scheme, rest)) = uri.split_once("://") {
            let authority = rest.find('/').unwrap_or(rest.len());
            if let Some(end) = rest[..authority].rfind('@') {
                *uri = format!("{scheme}://{}", &rest[end + 1..]);
            }
        }
    }
    sources
}

#[cfg(test)]
mod tests;
