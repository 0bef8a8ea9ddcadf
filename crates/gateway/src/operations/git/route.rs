//! The repository that a request is about, and the service of it.
//!
//! A path has exactly one reading here: nothing is unquoted and nothing is resolved. So no path
//! that the upstream could read as another repository gets through.

use ::http::Method;

use crate::operations::refuse::Refusal;

/// Of a repository's path, with its groups.
const MAX_PATH: usize = 256;

/// One of git's two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Clones and fetches.
    Upload,
    /// Pushes.
    Receive,
}

/// The part of a repository that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The references of a repository. Every clone and push begins with it.
    Advertise(Service),
    Call(Service),
    MergeRequest,
}

/// A request for a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// Without `.git`.
    pub(super) repository: String,
    /// As the client wrote it: some servers know only one of both.
    pub(super) path: String,
    pub(super) action: Action,
}

impl Service {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Upload => "git-upload-pack",
            Self::Receive => "git-receive-pack",
        }
    }
}

impl Route {
    pub(super) fn of(method: &Method, rest: &str, query: Option<&str>) -> Result<Self, Refusal> {
        let path = rest.strip_prefix('/').ok_or(Refusal::Path)?;
        let (path, action) = if let Some(path) = path.strip_suffix("/info/refs") {
            let service = match query {
                Some("service=git-upload-pack") => Service::Upload,
                Some("service=git-receive-pack") => Service::Receive,
                // The protocol of files, which has neither services nor checks.
                _ => return Err(Refusal::Path),
            };
            (path, Action::Advertise(service))
        } else if let Some(path) = path.strip_suffix("/git-upload-pack") {
            (path, Action::Call(Service::Upload))
        } else if let Some(path) = path.strip_suffix("/git-receive-pack") {
            (path, Action::Call(Service::Receive))
        } else if let Some(path) = path.strip_suffix("/merge-requests") {
            (path, Action::MergeRequest)
        } else {
            return Err(Refusal::Path);
        };
        let is_right = match action {
            Action::Advertise(_) => method == Method::GET,
            Action::Call(_) | Action::MergeRequest => {
                if query.is_some() {
                    return Err(Refusal::Path);
                }
                method == Method::POST
            }
        };
        if !is_right {
            return Err(Refusal::Method);
        }
        let repository = path.strip_suffix(".git").unwrap_or(path);
        if !is_repository(repository) {
            return Err(Refusal::Path);
        }
        Ok(Self { repository: repository.to_owned(), path: format!("/{path}"), action })
    }
}

/// Returns true if all servers read these segments alike.
fn is_repository(path: &str) -> bool {
    let is_plain = |segment: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        segment.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
            && segment.bytes().all(is_letter)
            && !segment.contains("..")
            && !segment.ends_with('.')
            && !segment.to_ascii_lowercase().ends_with(".git")
    };
    path.len() <= MAX_PATH && path.split('/').all(is_plain)
}

/// Returns true if `text` fits a pattern, in which `*` stands for any text. `across` says whether
/// it may have slashes.
pub(super) fn fits(pattern: &str, text: &str, across: bool) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    for at in ends {
        let (eaten, left) = rest.split_at(at);
        if !across && eaten.contains('/') {
            return false;
        }
        if fits(after, left, across) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, query: Option<&str>) -> Option<(String, Action)> {
        let method = if query.is_some() { Method::GET } else { Method::POST };
        Route::of(&method, path, query).ok().map(|route| (route.repository, route.action))
    }

    #[test]
    fn requests_of_git_have_one_form() {
        let upload = Some("service=git-upload-pack");
        let advertise = Action::Advertise(Service::Upload);
        assert_eq!(
            of("/acme/widget.git/info/refs", upload),
            Some(("acme/widget".into(), advertise))
        );
        assert_eq!(of("/a/b/c/info/refs", upload), Some(("a/b/c".into(), advertise)));
        let push = Action::Call(Service::Receive);
        assert_eq!(of("/acme/widget/git-receive-pack", None), Some(("acme/widget".into(), push)));
        let merge = Some(("acme/widget".into(), Action::MergeRequest));
        assert_eq!(of("/acme/widget.git/merge-requests", None), merge);
        for query in ["", "service=git-upload-archive", "service=git-upload-pack&x=1"] {
            assert_eq!(of("/acme/widget/info/refs", Some(query)), None, "{query}");
        }
        let with_query = Route::of(&Method::POST, "/a/b/git-receive-pack", Some("x"));
        assert_eq!(with_query, Err(Refusal::Path));
        let read = Route::of(&Method::GET, "/a/b/git-receive-pack", None);
        assert_eq!(read, Err(Refusal::Method));
    }

    /// GW-26/paths: another repository by another spelling of its path.
    #[test]
    fn paths_with_two_readings_are_refused() {
        for path in [
            "/acme/../secret/plans",
            "/acme/%2e%2e/secret",
            "/acme//widget",
            "//acme/widget",
            "/acme/./widget",
            "/acme/widget/..",
            "/acme/widget%2f..",
            "/acme/widget;x",
            "/acme\\widget",
            "/acme/.widget",
            "/acme/-widget",
            "/acme/widget.git.git",
            "/acme/x.git/widget",
            "/acme/wi dget",
            "/acme/w\u{e4}",
            "/",
            "",
            "/acme/widget/",
        ] {
            assert_eq!(of(&format!("{path}/git-receive-pack"), None), None, "{path}");
        }
        assert_eq!(of("/acme/widget/objects/info/packs", None), None);
        assert_eq!(of("/acme/widget/info/lfs/objects/batch", None), None);
    }

    #[test]
    fn patterns_fit_whole_texts() {
        assert!(fits("acme/*", "acme/widget", false));
        assert!(!fits("acme/*", "acme/group/widget", false));
        assert!(!fits("acme/*", "acmex/widget", false));
        assert!(fits("agent/*", "agent/a/b", true));
        assert!(fits("*-fix", "a-fix", true) && !fits("*-fix", "a-fix-2", true));
        assert!(fits("*", "anything/at/all", true) && !fits("main", "mainly", true));
        assert!(!fits("a*b*c", "abbb", true) && fits("a*b*c", "a/b/c", true));
    }
}
