//! Where nodes share what tenants have built.

use std::path::PathBuf;

use belljar_objects::Place;
use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sharing {
    /// Object store that nodes share for templates built by tenants: a shared directory or
    /// s3://BUCKET[/PREFIX]
    #[arg(long, value_name = "DIR|s3://BUCKET", help_heading = "Objects")]
    objects: Option<Place>,
    /// File with endpoint and credentials of the bucket, as AWS_NAME=value lines [default: the
    /// environment variables of these names]
    #[arg(long, value_name = "FILE", requires = "objects", help_heading = "Objects")]
    objects_settings: Option<PathBuf>,
}

impl Sharing {
    pub(crate) fn place(&self) -> Option<Place> {
        let place = self.objects.clone()?;
        Some(match &self.objects_settings {
            Some(file) => place.with_settings(file),
            None => place,
        })
    }
}
