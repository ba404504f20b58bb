//! What audit entries can record: the actions of routes, which are their names, and what the service does
//! by itself.

use std::collections::BTreeMap;

/// What the service does by itself or by a command, each with its summary. Some of it is the action of a
/// route, too.
const BY_ITSELF: [(&str, &str); 7] = [
    ("audit_log.restart", "Restart the chain of a broken audit log"),
    ("environment_secret.use", "Use a secret of an environment"),
    ("member.apply_rules", "Apply rules of sign-ins to a member"),
    ("organization.import", "Import an organization"),
    ("password_reset.create", "Make a link for a new password"),
    ("provider_credential.use", "Use a provider credential"),
    ("second_factor.reset", "Remove the second factor of a member"),
];

/// The kinds of things that entries are about, besides the nouns of actions.
const OTHER_KINDS: [&str; 3] = ["label_change", "peer", "user"];

/// Whether the service may record this action of its own.
pub(super) fn is_by_itself(action: &str) -> bool {
    BY_ITSELF.iter().any(|(name, _)| *name == action)
}

/// Returns the actions that entries of these routes and of the service record, each with its summary.
/// `routes` have names and summaries.
pub fn actions(
    routes: impl IntoIterator<Item = (&'static str, &'static str)>,
) -> BTreeMap<&'static str, &'static str> {
    BY_ITSELF.into_iter().chain(routes).collect()
}

/// Returns the noun of an action: the kind of what it is done to, unless the answer says another.
pub fn noun(action: &str) -> &str {
    action.split_once('.').map_or(action, |(noun, _)| noun)
}

/// Returns the kinds of things that entries of these actions are about.
pub fn kinds<'a>(actions: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut kinds: Vec<_> = actions.into_iter().map(noun).chain(OTHER_KINDS).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_service_does_by_itself_is_listed_with_its_summary() {
        let all = actions([]);
        assert_eq!(all.len(), BY_ITSELF.len());
        assert!(all.iter().all(|(name, about)| is_by_itself(name) && !about.is_empty()));
        assert_eq!(kinds(["tool.create", "tool.delete", "artifact.publish"]).len(), 5);
        assert!(!is_by_itself("tool.create"));
    }
}
