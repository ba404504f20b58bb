//! Texts that the page after a form shows once. A cookie holds the name of one, never a text.

/// A text for the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flash {
    /// An account was changed.
    AccountSaved,
    /// A password was changed.
    PasswordChanged,
    /// A session was ended.
    SessionEnded,
    /// All other sessions were ended.
    SessionsEnded,
    /// An invitation was accepted.
    Joined,
    /// An organization was created.
    OrganizationCreated,
    /// A registry was created.
    RegistryCreated,
    /// A version was published.
    Published,
    /// A draft was saved.
    DraftSaved,
    /// A draft was deleted.
    DraftDeleted,
    /// A label was moved.
    LabelMoved,
    /// A label was removed.
    LabelRemoved,
    /// A version was deleted.
    VersionDeleted,
    /// A deployment was approved.
    Approved,
    /// A deployment was denied.
    Denied,
    /// A job was cancelled.
    Cancelled,
    /// The job of a rollback was created.
    RollbackBegun,
}

/// All of them: the name in the cookie, and the text.
const ALL: &[(Flash, &str, &str)] = &[
    (Flash::AccountSaved, "account-saved", "Your account was saved."),
    (
        Flash::PasswordChanged,
        "password-changed",
        "Your password was changed, and all other sessions were signed out.",
    ),
    (Flash::SessionEnded, "session-ended", "The session was signed out."),
    (Flash::SessionsEnded, "sessions-ended", "All other sessions were signed out."),
    (Flash::Joined, "joined", "Welcome. You are a member now."),
    (Flash::OrganizationCreated, "organization-created", "The organization was created."),
    (Flash::RegistryCreated, "registry-created", "The registry was created."),
    (Flash::Published, "published", "The version was published."),
    (Flash::DraftSaved, "draft-saved", "The draft was saved."),
    (Flash::DraftDeleted, "draft-deleted", "The draft was deleted."),
    (Flash::LabelMoved, "label-moved", "The label was moved. It takes effect at once."),
    (Flash::LabelRemoved, "label-removed", "The label was removed."),
    (Flash::VersionDeleted, "version-deleted", "The version was deleted."),
    (Flash::Approved, "approved", "Your approval is recorded."),
    (Flash::Denied, "denied", "The deployment was denied."),
    (Flash::Cancelled, "cancelled", "The job was cancelled."),
    (Flash::RollbackBegun, "rollback", "This job brings the targets back to what was live before."),
];

impl Flash {
    /// Its name in the cookie.
    pub fn name(self) -> &'static str {
        let found = ALL.iter().find(|(flash, ..)| *flash == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// The text of a name.
    pub fn text(name: &str) -> Option<&'static str> {
        ALL.iter().find(|(_, known, _)| *known == name).map(|(_, _, text)| *text)
    }
}
