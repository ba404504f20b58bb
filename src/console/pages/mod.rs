//! The pages, one file each.

mod account;
mod activity;
mod artifact;
mod artifact_tags;
mod compare;
mod compare_inputs;
pub mod deployments;
mod device;
mod editor;
mod home;
mod invitations;
mod job;
pub mod label_change;
mod labels;
mod live;
mod new_artifact;
mod new_registry;
mod password;
mod registries;
mod registry;
mod reset_password;
mod second_factor;
mod setup;
pub mod sign_in;
mod provider_sign_in;
mod sign_in_settings;
mod sign_out;
mod theme;
mod today;
mod try_prompt;
mod version;
// Teams, agents, and deploying to them.
mod agent;
mod agent_draft;
mod agent_versions;
mod agents;
pub mod approvals;
pub mod board;
mod deploy;
mod fleets;
pub mod inbox;
mod inputs;
pub mod peers;
mod plan;
mod task;
mod tasks;
mod team_agent;
pub mod team_agents;
mod team_approvals;
mod team_schedule;
mod team_schedules;
mod team_settings;
mod team_usage;
mod teams;
mod timeline;
mod today_group;
mod today_operations;
mod today_teams;
mod waiting;
mod peer_rules;

mod access;
mod audit;
mod change_lines;
mod channel;
mod channels;
mod choose;
mod clone;
mod confirm;
mod confirm_mail;
pub mod confirm_identity;
mod directory;
mod document;
mod files;
mod edit_channel;
mod listing;
pub mod domains;
mod deploy_tool;
mod environment;
mod environments;
mod first_steps;
mod first_visit;
mod flags;
mod history;
mod grants;
mod keys;
mod knowledge;
mod llm_provider;
mod member;
mod many;
mod members;
mod model_prices;
pub mod notifications;
mod organization;
mod policies;
mod prompt_provider;
mod protected_label;
mod providers;
mod search;
mod shown_once;
mod system;
mod tools;
mod variable;

use super::page::Page;

/// The pages of each file.
const ALL: &[&[Page]] = &[
    setup::PAGES,
    sign_in::PAGES,
    first_visit::PAGES,
    provider_sign_in::PAGES,
    confirm_identity::PAGES,
    device::PAGES,
    sign_in_settings::PAGES,
    sign_out::PAGES,
    invitations::PAGES,
    confirm_mail::PAGES,
    reset_password::PAGES,
    theme::PAGES,
    home::PAGES,
    account::PAGES,
    password::PAGES,
    second_factor::PAGES,
    today::PAGES,
    registries::PAGES,
    new_registry::PAGES,
    registry::PAGES,
    artifact::PAGES,
    artifact_tags::PAGES,
    version::PAGES,
    try_prompt::PAGES,
    clone::PAGES,
    compare::PAGES,
    compare_inputs::PAGES,
    inputs::PAGES,
    labels::PAGES,
    label_change::PAGES,
    protected_label::PAGES,
    editor::PAGES,
    new_artifact::PAGES,
    deployments::PAGES,
    job::PAGES,
    live::PAGES,
    teams::PAGES,
    team_settings::PAGES,
    board::PAGES,
    tasks::PAGES,
    task::PAGES,
    inbox::PAGES,
    team_agents::PAGES,
    team_agent::PAGES,
    team_schedules::PAGES,
    team_schedule::PAGES,
    activity::PAGES,
    team_approvals::PAGES,
    timeline::PAGES,
    team_usage::PAGES,
    peers::PAGES,
    peer_rules::PAGES,
    waiting::PAGES,
    agents::PAGES,
    agent::PAGES,
    history::PAGES,
    agent_draft::PAGES,
    agent_versions::PAGES,
    fleets::PAGES,
    deploy::PAGES,
    organization::PAGES,
    members::PAGES,
    member::PAGES,
    keys::PAGES,
    grants::PAGES,
    access::PAGES,
    providers::PAGES,
    llm_provider::PAGES,
    model_prices::PAGES,
    prompt_provider::PAGES,
    notifications::PAGES,
    channels::PAGES,
    channel::PAGES,
    edit_channel::PAGES,
    audit::PAGES,
    system::PAGES,
    environments::PAGES,
    environment::PAGES,
    variable::PAGES,
    tools::PAGES,
    deploy_tool::PAGES,
    policies::PAGES,
    flags::PAGES,
    directory::PAGES,
    listing::PAGES,
    domains::PAGES,
    knowledge::PAGES,
    document::PAGES,
    files::PAGES,
    search::PAGES,
    choose::PAGES,
    many::PAGES,
];

/// Returns all pages.
pub fn all() -> impl Iterator<Item = &'static Page> {
    ALL.iter().copied().flatten()
}
