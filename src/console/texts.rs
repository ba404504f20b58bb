//! English texts that more than one page shows, by key: states, kinds, and what the API's
//! `labelKey` and `descriptionKey` stand for. Sentences of one page are in its template.

use crate::auth::Role;

/// Who may use a restricted kind of resource, in forms.
pub const ACCESSES: [(&str, &str); 2] = [
    ("organization", "All members"),
    ("restricted", "Restricted: admins, and members with a grant"),
];

/// Keys and texts, sorted by key.
const TEXTS: &[(&str, &str)] = &[
    ("access.organization", "All members"),
    ("access.restricted", "Granted members"),
    ("access_rule.credential", "Credential"),
    ("access_rule.grant", "Access"),
    ("access_rule.protected_label", "Protected label"),
    ("access_rule.provider", "Sign-in"),
    ("access_rule.role", "Role"),
    ("access_rule.scope", "Scope"),
    ("access_rule.second_factor", "Second factor"),
    ("artifact.prompt", "Prompt"),
    ("artifact.promptlet", "Promptlet"),
    ("listing.organization", "Your organization"),
    ("listing.public", "Anyone"),
    ("llm.anthropic", "Anthropic"),
    ("llm.custom", "Another server with OpenAI's API"),
    ("llm.google", "Google"),
    ("llm.ollama", "Ollama"),
    ("llm.openai", "OpenAI"),
    ("llm.openrouter", "OpenRouter"),
    ("media.application/epub+zip", "EPUB"),
    ("media.application/pdf", "PDF"),
    ("media.application/rtf", "RTF"),
    ("media.application/vnd.oasis.opendocument.presentation", "OpenDocument presentation"),
    ("media.application/vnd.oasis.opendocument.spreadsheet", "OpenDocument spreadsheet"),
    ("media.application/vnd.oasis.opendocument.text", "OpenDocument text"),
    (
        "media.application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "PowerPoint presentation",
    ),
    ("media.application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "Excel workbook"),
    (
        "media.application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "Word document",
    ),
    ("media.text/csv", "CSV"),
    ("media.text/html", "HTML"),
    ("media.text/markdown", "Markdown"),
    ("media.text/plain", "Text"),
    ("prompts.http", "JSON over HTTP"),
    ("prompts.langfuse", "Langfuse"),
    ("prompts.mlflow", "MLflow"),
    ("prompts.phoenix", "Arize Phoenix"),
    ("prompts.roadstead", "Roadstead"),
    ("search.agent", "Agents"),
    ("search.environment", "Environments"),
    ("search.fleet", "Fleets"),
    ("search.knowledge_base", "Knowledge bases"),
    ("search.policy", "Policies"),
    ("search.prompt", "Prompts"),
    ("search.promptlet", "Promptlets"),
    ("search.registry", "Registries"),
    ("search.task", "Tasks"),
    ("search.team", "Teams"),
    ("search.tool", "Tools"),
    ("visibility.private", "Private"),
    ("visibility.public", "Public"),
    ("wake.approval_decided", "A decision that it asked for"),
    ("wake.budget_low", "A budget that is low or used up"),
    ("wake.claim_expired", "A task whose worker gave no sign of life"),
    ("wake.dependency_cancelled", "A cancelled task that others wait for"),
    ("wake.dependency_done", "A task that waits for nothing any more"),
    ("wake.direct_message", "A message to it"),
    ("wake.external_request", "An outside agent that was accepted"),
    ("wake.notification", "A notification"),
    ("wake.schedule", "A schedule"),
    ("wake.task_assigned", "A task that it got"),
    ("wake.task_note", "A note on a task"),
    ("wake.task_overdue", "A task that is overdue"),
    ("wake.task_reopened", "A task that was reopened"),
    ("wake.task_unblocked", "A task that is not blocked any more"),
    ("wake.wake_failed", "An agent that does not acknowledge its wakes"),
    ("workflows.agent_wake.description", "Wakes an agent of a team."),
    ("workflows.agent_wake.label", "Wake an agent"),
    ("workflows.email.description", "Sends a mail."),
    ("workflows.email.label", "E-mail"),
    ("workflows.in_app.description", "Keeps it in the log, for everyone to read."),
    ("workflows.in_app.label", "Log"),
    ("workflows.slack.description", "Posts to a channel of Slack."),
    ("workflows.slack.label", "Slack"),
    ("workflows.team_task.description", "Creates a task in a team."),
    ("workflows.team_task.label", "Task"),
    ("workflows.webhook.description", "Posts signed JSON to a URL."),
    ("workflows.webhook.label", "Webhook"),
];

/// The text of a key; the key itself if there is none.
pub fn text(key: &str) -> &str {
    match TEXTS.binary_search_by_key(&key, |(known, _)| known) {
        Ok(at) => TEXTS[at].1,
        Err(_) => key,
    }
}

/// What a form offers of one kind: the values, and what they are called.
pub fn choices(kind: &str) -> Vec<(&'static str, &'static str)> {
    let value = |key: &'static str| key.strip_prefix(kind)?.strip_prefix('.');
    TEXTS.iter().filter_map(|(key, text)| Some((value(key)?, *text))).collect()
}

/// Says how many characters of a text a reader would not see; empty if none.
pub fn invisible(count: impl std::borrow::Borrow<usize>) -> String {
    match count.borrow() {
        0 => String::new(),
        1 => "1 invisible character".into(),
        count => format!("{count} invisible characters"),
    }
}

/// The name of a role.
pub fn role(role: &Role) -> &'static str {
    match role {
        Role::Viewer => "Viewer",
        Role::Member => "Member",
        Role::Admin => "Admin",
        Role::Owner => "Owner",
    }
}

/// Who is to approve deployments: a viewer cannot, nor can whoever nobody vouches for.
pub fn approver(name: &str, role: Role, is_verified: bool) -> String {
    match is_verified {
        _ if role < Role::Member => format!("{name} (cannot approve: a viewer)"),
        true => name.into(),
        false => format!("{name} (cannot approve yet: nobody vouches for the e-mail address)"),
    }
}

/// Warns if fewer can approve than must; empty otherwise.
pub fn too_few(can: usize, needed: u32) -> String {
    let can = match can {
        can if can >= usize::try_from(needed).unwrap_or(usize::MAX) => return String::new(),
        0 => "Nobody of them can".into(),
        can => format!("Only {can} of them can"),
    };
    let must = if needed == 1 { "1 must".into() } else { format!("{needed} must") };
    format!(
        "{can} approve now, and {must}. An admin changes that on a person's page, and vouches for the \
         e-mail address or gives a viewer another role; until then what they are to approve waits, \
         and times out."
    )
}

/// The name of a workflow of channels.
pub fn workflow(key: &str) -> String {
    text(&format!("workflows.{key}.label")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_are_warned_of() {
        assert_eq!(too_few(2, 2), "");
        assert!(too_few(0, 1).starts_with("Nobody of them can approve now, and 1 must."));
        assert!(too_few(1, 2).starts_with("Only 1 of them can approve now, and 2 must."));
    }

    #[test]
    fn texts_are_found_by_their_keys() {
        assert!(TEXTS.is_sorted_by_key(|(key, _)| key));
        assert_eq!(text("workflows.slack.label"), "Slack");
        assert_eq!(text("visibility.secret"), "visibility.secret");
    }
}
