//! What virtual machines are made of, from the store that a template lies in.

use belljar_domain::RootFs;
use belljar_engine::{Parts, Supplier};
use belljar_template::machine::MachineError;
use belljar_template::{Silent, Store};

/// Finds parts beside the layers that a sandbox stands on.
#[derive(Debug)]
pub(crate) struct FromStore;

impl Supplier for FromStore {
    fn supply(&self, root: &RootFs) -> Result<Parts, String> {
        let supplied = || -> Result<Parts, MachineError> {
            let store = Store::holding(root)?;
            let kernel = store.kernel(&mut Silent)?;
            let image = store.image(root, &mut Silent)?;
            Ok(Parts {
                kernel: kernel.directory,
                kernel_version: kernel.version,
                image: image.path,
                image_digest: image.digest.to_string(),
            })
        };
        supplied().map_err(|error| {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                text.push_str(": ");
                text.push_str(&error.to_string());
                source = error.source();
            }
            text
        })
    }
}
