//! What a path means.

use crate::problem::Problem;

/// Makes a path absolute: `~` and relative ones begin at `home`, and nothing
/// is home itself. In an absolute path `..` is left to the kernel, which knows
/// where links lead.
pub(super) fn resolve(path: &str, home: &str) -> Result<String, Problem> {
    if path.contains('\0') {
        return Err(Problem::invalid("a path cannot have a NUL character"));
    }
    if path.starts_with('/') {
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        return Ok(join(parts));
    }
    let below = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        Some(_) => {
            let message =
                format!("failed to expand path '{path}': cannot expand user-specific home dir");
            return Err(Problem::invalid(message));
        }
        None => path,
    };
    let mut parts: Vec<&str> = home.split('/').filter(|part| !part.is_empty()).collect();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Ok(join(parts.into_iter()))
}

fn join<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let mut path = String::new();
    for part in parts {
        path.push('/');
        path.push_str(part);
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

/// The last part of an absolute path.
pub fn name_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((_, "")) => "/",
        Some((_, name)) => name,
        None => path,
    }
}

/// The directory that an absolute path is in; the root is in none.
pub(super) fn parent_of(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some(("", "")) | None => None,
        Some(("", _)) => Some("/"),
        Some((parent, _)) => Some(parent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, want: &str) {
        assert_eq!(resolve(path, "/home/user").unwrap(), want);
    }

    #[test]
    fn relative_paths_begin_at_home() {
        check("", "/home/user");
        check(".", "/home/user");
        check("a/b", "/home/user/a/b");
        check("./a//b/", "/home/user/a/b");
        check("../other", "/home/other");
        check("../../../..", "/");
        check("~", "/home/user");
        check("~/", "/home/user");
        check("~/a", "/home/user/a");
    }

    #[test]
    fn absolute_paths_keep_what_only_the_kernel_can_resolve() {
        check("/", "/");
        check("//tmp/./x/", "/tmp/x");
        check("/link/../x", "/link/../x");
    }

    #[test]
    fn other_homes_and_nul_are_refused() {
        for path in ["~root/x", "~x", "a\0b", "/a\0b"] {
            assert!(resolve(path, "/home/user").is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_path_has_a_name_and_a_parent() {
        assert_eq!((name_of("/a/b"), parent_of("/a/b")), ("b", Some("/a")));
        assert_eq!((name_of("/a"), parent_of("/a")), ("a", Some("/")));
        assert_eq!((name_of("/"), parent_of("/")), ("/", None));
    }
}
