//! The pages, one file each.

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
mod registries;
mod registry;
mod reset_password;
mod setup;
pub mod sign_in;
mod sign_out;
mod theme;
mod today;
mod version;

use super::page::Page;

/// The pages of each file.
const ALL: &[&[Page]] = &[
    setup::PAGES,
    sign_in::PAGES,
    sign_out::PAGES,
    invitations::PAGES,
    reset_password::PAGES,
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

/// Returns all pages.
pub fn all() -> impl Iterator<Item = &'static Page> {
    ALL.iter().copied().flatten()
}
