//! Package managers of the host, used to fetch; installing happens in a sandbox
//! wherever a package could bring code that runs.

pub(crate) mod apt;
pub(crate) mod npm;
pub(crate) mod pip;
