//! The sections of the navigation.

/// An entry of the navigation.
pub struct Section {
    pub label: &'static str,
    pub icon: &'static str,
    pub path: String,
    pub is_current: bool,
}

/// The sections of an organization: label, icon, path below the organization's, and the beginnings of
/// other paths that belong to it.
const SECTIONS: &[(&str, &str, &str, &[&str])] = &[
    ("Today", "today", "", &[]),
    ("Prompts", "prompts", "/prompts", &["/promptlets/", "/registries/", "/label-changes"]),
    ("Agents", "agents", "/agents", &["/fleets", "/new/agent", "/new/fleet"]),
    ("Deployments", "deployments", "/deployments", &[]),
    ("Teams", "teams", "/teams", &["/new/team", "/waiting/"]),
    ("Tools", "tools", "/tools", &[]),
    ("Environments", "environments", "/environments", &["/variables/"]),
    ("Governance", "governance", "/governance", &[]),
    ("Knowledge", "knowledge", "/knowledge", &[]),
    ("Directory", "directory", "/directory", &[]),
    ("Operations", "operations", "/operations", &[]),
    ("Settings", "settings", "/settings", &[]),
];

/// The sections of an organization, with the one that `path` belongs to.
pub fn of(slug: &str, path: &str) -> Vec<Section> {
    let base = format!("/o/{slug}");
    let below = path.strip_prefix(&*base).unwrap_or_default();
    let section = |(label, icon, own, others): &(&'static str, &'static str, &str, &[&str])| {
        let is_below = !own.is_empty() && below.starts_with(own);
        Section {
            label,
            icon,
            path: format!("{base}{own}"),
            is_current: below == *own
                || is_below
                || others.iter().any(|other| below.starts_with(other)),
        }
    };
    SECTIONS.iter().map(section).collect()
}
