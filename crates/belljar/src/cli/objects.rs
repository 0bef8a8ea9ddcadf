//! Where nodes share what tenants have built.

use std::path::PathBuf;

use belljar_objects::Place;
use clap::Args;

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sharing {
    /// Where nodes share the templates that tenants build: a directory that all of them see, or
    /// s3://BUCKET[/PREFIX]
    #[arg(long, value_name = "DIR|s3://BUCKET", help_heading = "Objects")]
    objects: Option<Place>,
    /// Endpoint and credentials of the bucket, as AWS_NAME=value lines; else the variables of
    /// these names count
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
