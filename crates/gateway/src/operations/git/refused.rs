//! Refusals of git operations, in words that say what to do instead.

use ::http::StatusCode;
use belljar_domain::network::Reason;

use super::commands::BadHead;
use super::pack::BadPack;
use crate::operations::refuse::Refusal;

/// The reason that something was not done with a repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::operations) enum Refused {
    #[error("the repository `{0}` is not allowed here")]
    Repository(String),
    #[error("this operation only reads: nothing can be pushed")]
    ReadOnly,
    #[error("`{0}` is no branch; push branches only")]
    NoBranch(String),
    #[error("the branch `{branch}` may not be pushed; allowed: {allowed}")]
    Branch { branch: String, allowed: String },
    #[error("`{0}` is the default branch; push another branch and open a merge request")]
    DefaultBranch(String),
    #[error("`{0}` may not be deleted")]
    Deletion(String),
    #[error(
        "`{0}` would lose commits, or its new commits are not in the push; put your commits on top \
         of the branch as it is, or push a new branch"
    )]
    Force(String),
    #[error("{0}")]
    Head(BadHead),
    #[error("{0}")]
    Pack(BadPack),
    #[error("a human denied this{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    Disapproved(Option<String>),
    #[error("no human approved this within {0} seconds; ask for it, and try again")]
    Undecided(u64),
    #[error("no human can be asked for approval here")]
    NoApprover,
    #[error("this operation has no merge requests")]
    NoForge,
    #[error("{0}")]
    MergeRequest(String),
    #[error("the forge refused the merge request ({status}){message}")]
    Forge { status: u16, message: String },
}

impl Refused {
    pub(in crate::operations) fn reason(&self) -> Reason {
        match self {
            Self::Repository(_) => Reason::Repository,
            Self::ReadOnly | Self::NoBranch(_) | Self::Branch { .. } | Self::DefaultBranch(_) => {
                Reason::Branch
            }
            Self::Deletion(_) => Reason::Deletion,
            Self::Force(_) => Reason::Force,
            Self::Head(_) | Self::Pack(_) | Self::MergeRequest(_) => Reason::Malformed,
            Self::Disapproved(_) | Self::Undecided(_) | Self::NoApprover => Reason::NotApproved,
            Self::NoForge => Reason::Path,
            Self::Forge { .. } => Reason::Upstream,
        }
    }

    pub(in crate::operations) fn status(&self) -> StatusCode {
        match self {
            Self::Head(_) | Self::Pack(_) => StatusCode::BAD_REQUEST,
            Self::MergeRequest(_) | Self::Forge { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NoForge => StatusCode::NOT_FOUND,
            _ => StatusCode::FORBIDDEN,
        }
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        Self::Git(refused)
    }
}
