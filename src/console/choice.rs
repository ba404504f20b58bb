//! What a field is chosen for, and what it is offered.

use crate::base::Id;

/// So many are offered at once.
pub const OFFERED: usize = 20;
/// The longest text that the API looks for, in characters.
pub const MAX_TEXT: usize = 100;

/// What can be chosen, by what the API takes for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the address: a service account.
    Account,
    /// By its stable key.
    Agent,
    /// By its slug.
    Environment,
    /// By its number, of what has versions.
    ExactVersion,
    /// By its id.
    Fleet,
    /// By the address: a person, or a service account.
    Member,
    /// By the address.
    Person,
    /// By its name, in a registry or in all.
    Prompt,
    /// By its name, in a registry.
    Promptlet,
    /// By its name, which is free: what runs agents.
    Provider,
    /// By the slugs of the organization and its own.
    Registry,
    /// By its name: what a key may do.
    Scope,
    /// Who may do something, by the kind and the id: a person or a key.
    Subject,
    /// By its id.
    Team,
    /// What grants are for, by the kind and the id: a registry, an environment or a fleet.
    Thing,
    /// By its id.
    Tool,
    /// By its number or a label, of what has versions.
    Version,
}

/// The field of a form in which something is chosen.
#[derive(Clone, Copy)]
pub struct Chooser {
    pub name: &'static str,
    pub kind: Kind,
    /// The fields of the same form that say the registry, and the prompt; empty without. A version is then
    /// one of what the page is about.
    pub from: [&'static str; 2],
    /// The team whose agents are chosen from; nil for those of the organization.
    pub team: Id<()>,
    /// Whether several are entered, with commas between them.
    pub is_many: bool,
}

/// What is looked for.
pub struct Wanted<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// As the API names it; empty for all.
    pub registry: &'a str,
    pub prompt: &'a str,
    /// The type of what a version is of.
    pub artifact_type: &'a str,
    /// See [`Chooser`].
    pub team: Id<()>,
}

/// Something to choose.
#[derive(Debug, PartialEq)]
pub struct Choice {
    pub value: String,
    /// What people know it by, beside its value; may be empty.
    pub label: String,
}

/// What is offered at a field, for a form without scripts.
pub struct Offer {
    pub name: &'static str,
    /// What the field becomes, and what is read.
    pub choices: Vec<(String, String)>,
}

impl Kind {
    const ALL: [Kind; 17] = [
        Kind::Account,
        Kind::Agent,
        Kind::Environment,
        Kind::ExactVersion,
        Kind::Fleet,
        Kind::Member,
        Kind::Person,
        Kind::Prompt,
        Kind::Promptlet,
        Kind::Provider,
        Kind::Registry,
        Kind::Scope,
        Kind::Subject,
        Kind::Team,
        Kind::Thing,
        Kind::Tool,
        Kind::Version,
    ];

    /// Whether it is in a registry, of which it is looked for.
    pub fn is_artifact(self) -> bool {
        matches!(self, Kind::Prompt | Kind::Promptlet)
    }

    /// Its name in addresses and in the search of the API.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Account => "account",
            Kind::Agent => "agent",
            Kind::Environment => "environment",
            Kind::ExactVersion => "exact-version",
            Kind::Fleet => "fleet",
            Kind::Member => "member",
            Kind::Person => "person",
            Kind::Prompt => "prompt",
            Kind::Promptlet => "promptlet",
            Kind::Provider => "provider",
            Kind::Registry => "registry",
            Kind::Scope => "scope",
            Kind::Subject => "subject",
            Kind::Team => "team",
            Kind::Thing => "thing",
            Kind::Tool => "tool",
            Kind::Version => "version",
        }
    }

    /// The kind of this name.
    pub fn of(name: &str) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The path of its list, and the fields that say value and label.
    pub fn list(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Agent => ("/agents", "stableKey", "name"),
            Kind::Environment => ("/environments", "slug", "name"),
            Kind::Fleet => ("/fleets", "id", "name"),
            Kind::Team => ("/teams", "id", "name"),
            Kind::Prompt | Kind::Promptlet => ("/registries/artifacts", "name", ""),
            Kind::Registry => ("/registries", "slug", "name"),
            // They are found otherwise.
            Kind::Account | Kind::Member | Kind::Person | Kind::Provider => ("", "", ""),
            Kind::Scope | Kind::Subject | Kind::Thing => ("", "", ""),
            Kind::Tool => ("/tools", "id", "name"),
            Kind::ExactVersion | Kind::Version => ("/registries/artifact-versions", "version", ""),
        }
    }
}

impl Chooser {
    /// A field in which one thing is chosen.
    pub const fn one(name: &'static str, kind: Kind) -> Self {
        Chooser { name, kind, from: ["", ""], team: Id::NIL, is_many: false }
    }

    /// The fields of the form that say the registry, and the prompt.
    pub const fn from(self, registry: &'static str, prompt: &'static str) -> Self {
        Chooser { from: [registry, prompt], ..self }
    }

    /// Whether it chooses from the versions of what the page is about.
    pub fn is_of_page(&self) -> bool {
        matches!(self.kind, Kind::ExactVersion | Kind::Version) && self.from[0].is_empty()
    }

    /// It is chosen from what this team has.
    pub const fn of_team(self, team: Id<()>) -> Self {
        Chooser { team, ..self }
    }

    /// Several are entered.
    pub const fn many(self) -> Self {
        Chooser { is_many: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_known_by_its_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.name()), Some(kind));
        }
        assert_eq!(Kind::of("secret"), None);
    }
}
