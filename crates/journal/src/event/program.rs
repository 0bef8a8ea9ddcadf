//! The session of a published agent program, such as Claude Code.

use serde::{Deserialize, Serialize};

use crate::blob::BlobRef;
use crate::event::CallRef;

/// The session of the program is kept: another sandbox can go on from here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSaved {
    /// The call that the program ran in.
    pub call: CallRef,
    /// The program's own name of the session.
    pub session: String,
    /// A compressed tar archive of the home directory.
    pub content: BlobRef,
}
