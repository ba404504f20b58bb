//! The pages, one file each, and the sections of the navigation.

mod account;
mod artifact;
mod compare;
pub mod deployments;
mod editor;
mod home;
mod invitations;
pub mod job;
mod labels;
mod live;
mod new_registry;
mod password;
pub mod place;
mod registries;
mod registry;
mod setup;
pub mod sign_in;
mod sign_out;
mod theme;
mod today;
mod version;

use super::frame::Section;
use super::page::Page;

/// The pages of each file.
const ALL: &[&[Page]] = &[
    setup::PAGES,
    sign_in::PAGES,
    sign_out::PAGES,
    invitations::PAGES,
    theme::PAGES,
    home::PAGES,
    account::PAGES,
    password::PAGES,
    today::PAGES,
    registries::PAGES,
    new_registry::PAGES,
    registry::PAGES,
    artifact::PAGES,
    version::PAGES,
    compare::PAGES,
    labels::PAGES,
    editor::PAGES,
    deployments::PAGES,
    job::PAGES,
    live::PAGES,
];

/// The sections of an organization: label, icon, path below the organization's, and the beginnings of
/// other paths that belong to it.
const SECTIONS: &[(&str, &str, &str, &[&str])] = &[
    ("Today", "today", "", &[]),
    ("Prompts", "prompts", "/prompts", &["/promptlets/", "/registries/"]),
    ("Deployments", "deployments", "/deployments", &[]),
];

/// Returns all pages.
pub fn all() -> impl Iterator<Item = &'static Page> {
    ALL.iter().copied().flatten()
}

/// The sections of an organization, with the one that `path` belongs to.
pub fn sections(slug: &str, path: &str) -> Vec<Section> {
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
