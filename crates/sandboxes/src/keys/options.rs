//! Options of a line of the key file.

use std::path::Path;

use belljar_domain::{OperationCap, Tier};

use super::KeyError;

/// The rest of a line: each option at most once.
#[derive(Default)]
pub(super) struct Options {
    pub(super) floor: Option<Tier>,
    pub(super) key_cap: Option<OperationCap>,
    pub(super) tenant_cap: Option<OperationCap>,
}

impl Options {
    pub(super) fn read<'w>(
        words: impl Iterator<Item = &'w str>,
        path: &Path,
        line: usize,
    ) -> Result<Self, KeyError> {
        let wrong = || KeyError::Line { path: path.to_owned(), line };
        let cap = |text: &str| {
            let cap = text.parse::<OperationCap>();
            cap.map_err(|source| KeyError::Operations { path: path.to_owned(), line, source })
        };
        let mut options = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            let is_second = match name {
                "floor" => {
                    let floor = value.parse::<Tier>();
                    let path = path.to_owned();
                    let floor = floor.map_err(|source| KeyError::Floor { path, line, source })?;
                    options.floor.replace(floor).is_some()
                }
                "operations" => options.key_cap.replace(cap(value)?).is_some(),
                "tenant-operations" => options.tenant_cap.replace(cap(value)?).is_some(),
                _ => true,
            };
            if is_second {
                return Err(wrong());
            }
        }
        Ok(options)
    }
}
