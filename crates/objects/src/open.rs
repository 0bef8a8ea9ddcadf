//! Where shared objects are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::digest::Digest;
use crate::error::OpenError;
use crate::name;

/// A directory that every node sees, or a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Directory(PathBuf),
    S3 {
        bucket: String,
        /// Empty, or parts with `/` between them.
        prefix: String,
        /// A file of `AWS_NAME=value` lines; what it says wins over the variables of the
        /// same names.
        settings: Option<PathBuf>,
    },
}

impl Place {
    /// The same place, with endpoint and credentials from a file.
    #[must_use]
    pub fn with_settings(self, file: &Path) -> Self {
        match self {
            Self::S3 { bucket, prefix, .. } => {
                Self::S3 { bucket, prefix, settings: Some(file.to_owned()) }
            }
            directory => directory,
        }
    }

    /// A place of its own within this one; what is in either is not in the other. The
    /// part is letters, digits, `-` and `_`.
    #[must_use]
    pub fn below(&self, part: &str) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(path.join(part)),
            Self::S3 { bucket, prefix, settings } => {
                let gap = if prefix.is_empty() { "" } else { "/" };
                let (bucket, settings) = (bucket.clone(), settings.clone());
                Self::S3 { bucket, prefix: format!("{prefix}{gap}{part}"), settings }
            }
        }
    }

    /// The place of one tenant within this one. A tenant's name may hold what a path cannot.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str) -> Self {
        self.below(&Digest::of(tenant.as_bytes()).to_string())
    }
}

impl FromStr for Place {
    type Err = OpenError;

    fn from_str(text: &str) -> Result<Self, OpenError> {
        let wrong = || OpenError::Place(text.to_owned());
        let Some(rest) = text.strip_prefix("s3://") else {
            let path = Path::new(text);
            // A misspelt address must not become a directory beside the server.
            return if path.is_absolute() {
                Ok(Self::Directory(path.into()))
            } else {
                Err(wrong())
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        if name::check(bucket).is_err() || !prefix.is_empty() && name::check(prefix).is_err() {
            return Err(wrong());
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned(), settings: None })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::S3 { bucket, prefix, .. } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix, .. } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for good in ["/var/lib/objects", "s3://bucket", "s3://bucket/some/prefix"] {
            assert_eq!(good.parse::<Place>().unwrap().to_string(), good);
        }
        for (place, below) in [("/a", "/a/b"), ("s3://b", "s3://b/b"), ("s3://b/p", "s3://b/p/b")] {
            assert_eq!(place.parse::<Place>().unwrap().below("b").to_string(), below);
        }
        let tenants = Place::Directory("/a".into());
        let (one, other) = (tenants.of_tenant("one"), tenants.of_tenant("../one"));
        assert_ne!(one, other);
        assert_eq!(other.to_string().len(), "/a/".len() + 64);
        assert_eq!("s3://b/p/".parse::<Place>().unwrap().to_string(), "s3://b/p");
        for bad in ["", "objects", "s3:/b", "s3://", "s3://b//x", "s3://b/../x", "http://x"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
