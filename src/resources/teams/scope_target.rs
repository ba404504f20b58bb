//! The team that a request names, for keys whose scopes are narrowed to some.

use super::team::Team;
use crate::api::TargetFinder;
use crate::auth::ScopeTarget;
use crate::base::Id;

/// The team in the first parameter of the path.
pub static TEAM_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.first().map_or(Id::NIL, |param| Id::parse(param));
        Ok(view.get::<Team>(&id)?.map(|team| ScopeTarget::named(&team.slug)))
    },
};
