//! What of the API the pages offer: all but what is named here, with its reason. Whether they call it is
//! seen in `called.rs`.

use std::collections::BTreeMap;
use std::path::Path;

use roadstead::resources;

/// The routes that each file of the console calls.
pub const OFFERED: &[(&str, &[&str])] = &[
    ("access.rs", &["GET /access/explain"]),
    (
        "account.rs",
        &[
            "GET /auth/links",
            "GET /auth/sessions",
            "DELETE /auth/sessions",
            "DELETE /auth/sessions/{sessionId}",
            "GET /auth/user",
            "PATCH /auth/user",
        ],
    ),
    ("confirm_identity.rs", &["POST /auth/session/confirm"]),
    (
        "device.rs",
        &[
            "POST /auth/device-sign-ins/{userCode}/preview",
            "POST /auth/device-sign-ins/{userCode}/approve",
            "POST /auth/device-sign-ins/{userCode}/deny",
        ],
    ),
    ("artifact_tags.rs", &["PATCH /registries/artifacts"]),
    ("compare_inputs.rs", &["POST /prompts/{promptName}/compare"]),
    (
        "inputs.rs",
        &[
            "GET /prompts/{promptName}/inputs",
            "POST /prompts/{promptName}/inputs",
            "GET /prompts/{promptName}/inputs/{inputName}",
            "PATCH /prompts/{promptName}/inputs/{inputName}",
            "DELETE /prompts/{promptName}/inputs/{inputName}",
        ],
    ),
    (
        "label_change.rs",
        &[
            "GET /registries/artifacts/label-changes",
            "GET /registries/artifacts/label-changes/{changeId}",
            "GET /registries/artifacts/label-changes/{changeId}/approvals",
            "GET /registries/artifacts/label-changes/{changeId}/diff",
            "POST /registries/artifacts/label-changes/{changeId}/approve",
            "POST /registries/artifacts/label-changes/{changeId}/deny",
            "POST /registries/artifacts/label-changes/{changeId}/cancel",
        ],
    ),
    (
        "protected_label.rs",
        &[
            "GET /registries/{registrySlug}/protected-labels",
            "GET /registries/{registrySlug}/protected-labels/{label}",
            "PUT /registries/{registrySlug}/protected-labels/{label}",
            "DELETE /registries/{registrySlug}/protected-labels/{label}",
        ],
    ),
    (
        "provider_sign_in.rs",
        &[
            "POST /auth/providers/begin",
            "POST /auth/providers/finish",
            "POST /auth/providers/end",
            "POST /auth/links",
            "DELETE /auth/links/{linkId}",
        ],
    ),
    (
        "second_factor.rs",
        &[
            "GET /auth/second-factor",
            "POST /auth/second-factor",
            "POST /auth/second-factor/confirm",
            "POST /auth/second-factor/off",
        ],
    ),
    ("sign_in_settings.rs", &["GET /organizations/sign-in", "PUT /organizations/sign-in"]),
    ("activity.rs", &["GET /teams/{teamId}/activity"]),
    (
        "agent.rs",
        &[
            "GET /agents/{stableKey}",
            "DELETE /agents/{stableKey}",
            "GET /agents/{stableKey}/deployment-history",
            "POST /agents/{stableKey}/deployment-history/{deploymentId}/redeploy",
            "GET /agents/{stableKey}/environments",
        ],
    ),
    ("agent_draft.rs", &["POST /agents", "PATCH /agents/{stableKey}"]),
    (
        "agent_versions.rs",
        &[
            "GET /agents/{stableKey}/versions",
            "POST /agents/{stableKey}/versions",
            "GET /agents/{stableKey}/versions/diff",
            "GET /agents/{stableKey}/versions/{version}",
            "POST /agents/{stableKey}/versions/{version}/restore",
        ],
    ),
    ("agents.rs", &["GET /agents"]),
    (
        "artifact.rs",
        &[
            "GET /registries/artifact-versions",
            "GET /registries/artifact-versions/dependents",
            "GET /registries/artifacts/labels/history",
            "GET /deployments/live",
        ],
    ),
    ("audit.rs", &["GET /audit-logs", "GET /audit-logs/checkpoint"]),
    (
        "channel.rs",
        &[
            "GET /notifications/channels/{channelId}",
            "DELETE /notifications/channels/{channelId}",
            "POST /notifications/channels/{channelId}/rotate-secret",
            "GET /notifications/subscriptions",
            "POST /notifications/subscriptions",
            "DELETE /notifications/subscriptions/{subscriptionId}",
            "POST /notifications/channels/{channelId}/redeliver",
            "POST /notifications/channels/{channelId}/test",
        ],
    ),
    (
        "channels.rs",
        &[
            "GET /notifications/action-workflows",
            "GET /notifications/channels",
            "POST /notifications/channels",
        ],
    ),
    ("check.rs", &["POST /prompts/{promptName}/compile", "POST /prompts/{promptName}/preview"]),
    ("clone.rs", &["POST /registries/artifact-versions/clone"]),
    ("compare.rs", &["GET /registries/artifact-versions/diff"]),
    ("confirm_mail.rs", &["POST /notifications/recipients/confirm"]),
    ("deploy.rs", &["POST /agents/deployments", "POST /agents/deployments/preview"]),
    ("deployments.rs", &["GET /agents/deployments"]),
    ("directory.rs", &["GET /organizations/domains", "GET /agent-index/listings"]),
    (
        "document.rs",
        &[
            "GET /knowledge-bases/{id}/documents",
            "POST /knowledge-bases/{id}/documents",
            "GET /knowledge-bases/{id}/documents/{documentId}",
            "PUT /knowledge-bases/{id}/documents/{documentId}",
            "DELETE /knowledge-bases/{id}/documents/{documentId}",
        ],
    ),
    (
        "domains.rs",
        &[
            "POST /organizations/domains",
            "GET /organizations/domains/{domainId}",
            "DELETE /organizations/domains/{domainId}",
            "POST /organizations/domains/{domainId}/verifications",
        ],
    ),
    ("edit_channel.rs", &["PATCH /notifications/channels/{channelId}"]),
    (
        "editor.rs",
        &[
            "POST /registries/artifacts",
            "GET /prompts/{promptName}/drafts",
            "POST /prompts/{promptName}/drafts",
            "GET /prompts/{promptName}/drafts/{draftId}",
            "DELETE /prompts/{promptName}/drafts/{draftId}",
        ],
    ),
    (
        "environment.rs",
        &[
            "GET /environments/{environmentId}",
            "GET /environments/{environmentId}/variables",
            "GET /environments/{environmentId}/variables/{name}",
            "PUT /environments/{environmentId}/variables/{name}",
            "DELETE /environments/{environmentId}/variables/{name}",
            "GET /environments/{environmentId}/secrets",
            "PUT /environments/{environmentId}/secrets/{name}",
            "DELETE /environments/{environmentId}/secrets/{name}",
            "GET /environments/{environmentId}/provider-credentials",
            "PUT /environments/{environmentId}/provider-credentials/{name}",
            "DELETE /environments/{environmentId}/provider-credentials/{name}",
        ],
    ),
    (
        "environments.rs",
        &[
            "GET /environments",
            "POST /environments",
            "PATCH /environments/{environmentId}",
            "DELETE /environments/{environmentId}",
        ],
    ),
    (
        "files.rs",
        &[
            "POST /knowledge-bases/{id}/documents/upload",
            "PUT /knowledge-bases/{id}/documents/{documentId}/upload",
        ],
    ),
    ("flags.rs", &["GET /governance/flags", "POST /governance/flags/{flagId}/clear"]),
    (
        "fleets.rs",
        &[
            "GET /fleets",
            "POST /fleets",
            "GET /fleets/{fleetId}",
            "PATCH /fleets/{fleetId}",
            "DELETE /fleets/{fleetId}",
        ],
    ),
    (
        "grants.rs",
        &["GET /access-grants", "POST /access-grants", "DELETE /access-grants/{grantId}"],
    ),
    ("heatmap.rs", &["GET /deployments/heatmap"]),
    ("hits.rs", &["GET /search"]),
    ("home.rs", &["POST /organizations"]),
    (
        "inbox.rs",
        &[
            "GET /teams/{teamId}/messages",
            "POST /teams/{teamId}/messages",
            "GET /teams/{teamId}/messages/{messageId}",
            "PATCH /teams/{teamId}/messages/{messageId}",
        ],
    ),
    ("invitations.rs", &["POST /auth/invitations/preview", "POST /auth/invitations/accept"]),
    (
        "job.rs",
        &[
            "GET /agents/deployments/{jobId}",
            "POST /agents/deployments/{jobId}/cancel",
            "GET /agents/deployments/{jobId}/changes",
            "POST /agents/deployments/{jobId}/rollback",
            "GET /agents/deployments/{jobId}/approvals",
            "POST /agents/deployments/{jobId}/approve",
            "POST /agents/deployments/{jobId}/deny",
        ],
    ),
    (
        "keys.rs",
        &[
            "GET /api-keys",
            "POST /api-keys",
            "DELETE /api-keys/{keyId}",
            "POST /api-keys/{keyId}/rotate",
            "POST /api-keys/{keyId}/take-over",
        ],
    ),
    (
        "knowledge.rs",
        &[
            "GET /knowledge-bases",
            "POST /knowledge-bases",
            "GET /knowledge-bases/{id}",
            "PATCH /knowledge-bases/{id}",
            "DELETE /knowledge-bases/{id}",
            "GET /knowledge-bases/{id}/search",
        ],
    ),
    ("labels.rs", &["PATCH /registries/artifacts/labels", "DELETE /registries/artifacts/labels"]),
    (
        "listing.rs",
        &[
            "POST /agent-index/listings",
            "GET /agent-index/listings/{listingId}",
            "PATCH /agent-index/listings/{listingId}",
            "DELETE /agent-index/listings/{listingId}",
        ],
    ),
    (
        "llm_provider.rs",
        &[
            "POST /llm-providers",
            "GET /llm-providers/{id}",
            "PATCH /llm-providers/{id}",
            "DELETE /llm-providers/{id}",
            "POST /llm-providers/{id}/test",
        ],
    ),
    (
        "member.rs",
        &[
            "DELETE /organizations/members/{userId}/second-factor",
            "POST /organizations/members/{userId}/password-reset",
            "GET /organizations/members/{userId}",
            "PATCH /organizations/members/{userId}",
            "DELETE /organizations/members/{userId}",
            "POST /organizations/service-accounts",
            "GET /organizations/service-accounts/{serviceAccountId}",
            "PATCH /organizations/service-accounts/{serviceAccountId}",
            "DELETE /organizations/service-accounts/{serviceAccountId}",
        ],
    ),
    (
        "members.rs",
        &[
            "GET /organizations/members",
            "POST /organizations/members",
            "GET /organizations/invitations",
            "DELETE /organizations/invitations/{invitationId}",
        ],
    ),
    (
        "model_prices.rs",
        &[
            "GET /model-prices",
            "GET /model-prices/{model}",
            "PUT /model-prices/{model}",
            "DELETE /model-prices/{model}",
        ],
    ),
    (
        "new_registry.rs",
        &[
            "POST /registries",
            "PATCH /registries/{registrySlug}",
            "DELETE /registries/{registrySlug}",
        ],
    ),
    (
        "notifications.rs",
        &["GET /notifications/logs", "POST /notifications/logs/{logId}/redeliver"],
    ),
    ("organization.rs", &["PATCH /organizations"]),
    ("password.rs", &["POST /auth/password"]),
    (
        "paused.rs",
        &[
            "POST /agents/{stableKey}/pause",
            "POST /agents/{stableKey}/resume",
            "POST /teams/{teamId}/agents/{agentId}/pause",
            "POST /teams/{teamId}/agents/{agentId}/resume",
            "POST /teams/{teamId}/pause",
            "POST /teams/{teamId}/resume",
            "POST /teams/pause",
            "POST /teams/resume",
        ],
    ),
    (
        "peer_rules.rs",
        &[
            "GET /teams/{teamId}/exchange/domain-rules",
            "POST /teams/{teamId}/exchange/domain-rules",
            "DELETE /teams/{teamId}/exchange/domain-rules/{ruleId}",
        ],
    ),
    (
        "peers.rs",
        &[
            "GET /teams/{teamId}/exchange/peers",
            "GET /teams/{teamId}/exchange/peers/{peerId}",
            "POST /teams/{teamId}/exchange/peers/{peerId}/accept",
            "POST /teams/{teamId}/exchange/peers/{peerId}/refuse",
            "POST /teams/{teamId}/exchange/peers/{peerId}/block",
            "DELETE /teams/{teamId}/exchange/peers/{peerId}",
            "POST /teams/{teamId}/exchange/peers/{peerId}/messages",
        ],
    ),
    (
        "policies.rs",
        &[
            "GET /governance/policies",
            "POST /governance/policies",
            "GET /governance/policies/{policyId}",
            "PATCH /governance/policies/{policyId}",
            "DELETE /governance/policies/{policyId}",
            "GET /governance/policies/{policyId}/assignments",
            "POST /governance/policies/{policyId}/assignments",
            "DELETE /governance/policies/{policyId}/assignments/{assignmentId}",
            "POST /governance/check",
        ],
    ),
    (
        "prompt_provider.rs",
        &[
            "POST /prompt-providers",
            "GET /prompt-providers/{id}",
            "PATCH /prompt-providers/{id}",
            "DELETE /prompt-providers/{id}",
            "GET /prompt-providers/{id}/prompts",
            "POST /prompt-providers/{id}/import",
        ],
    ),
    ("providers.rs", &["GET /llm-providers", "GET /prompt-providers"]),
    ("registries.rs", &["GET /registries"]),
    ("registry.rs", &["GET /registries/{registrySlug}", "GET /registries/artifacts"]),
    ("reset_password.rs", &["POST /auth/password/reset", "POST /auth/password/forgot"]),
    ("setup.rs", &["POST /setup"]),
    (
        "sign_in.rs",
        &["GET /setup", "POST /auth/sign-in", "POST /auth/sign-in/code", "GET /auth/providers"],
    ),
    ("sign_out.rs", &["POST /auth/sign-out", "POST /auth/providers/sign-out"]),
    ("system.rs", &["GET /system"]),
    ("task.rs", &["GET /teams/{teamId}/tasks/{taskId}", "PATCH /teams/{teamId}/tasks/{taskId}"]),
    ("tasks.rs", &["GET /teams/{teamId}/tasks", "POST /teams/{teamId}/tasks"]),
    (
        "team_agent.rs",
        &[
            "GET /teams/{teamId}/agents/{agentId}",
            "PATCH /teams/{teamId}/agents/{agentId}",
            "DELETE /teams/{teamId}/agents/{agentId}",
            "GET /teams/{teamId}/agents/{agentId}/wakes",
            "POST /teams/{teamId}/agents/{agentId}/wakes/ack",
            "GET /teams/{teamId}/agents/{agentId}/wakes/failed",
            "POST /teams/{teamId}/agents/{agentId}/wakes/retry",
            "GET /teams/{teamId}/agents/{agentId}/memories",
            "DELETE /teams/{teamId}/agents/{agentId}/memories/{memoryId}",
            "GET /teams/{teamId}/agents/{agentId}/runs",
        ],
    ),
    ("team_agents.rs", &["GET /teams/{teamId}/agents", "POST /teams/{teamId}/agents"]),
    (
        "team_approvals.rs",
        &["GET /teams/{teamId}/approvals", "POST /teams/{teamId}/approvals/{approvalId}/decide"],
    ),
    (
        "team_schedule.rs",
        &[
            "POST /teams/{teamId}/schedules",
            "GET /teams/{teamId}/schedules/{scheduleId}",
            "PATCH /teams/{teamId}/schedules/{scheduleId}",
            "DELETE /teams/{teamId}/schedules/{scheduleId}",
            "POST /teams/{teamId}/schedules/{scheduleId}/pause",
            "POST /teams/{teamId}/schedules/{scheduleId}/resume",
            "GET /teams/{teamId}/schedules/{scheduleId}/runs",
        ],
    ),
    ("team_schedules.rs", &["GET /teams/{teamId}/schedules"]),
    (
        "team_settings.rs",
        &["GET /teams/{teamId}", "PATCH /teams/{teamId}", "DELETE /teams/{teamId}"],
    ),
    ("team_usage.rs", &["GET /teams/{teamId}/usage"]),
    ("teams.rs", &["GET /teams", "POST /teams", "GET /teams/pause"]),
    ("timeline.rs", &["GET /teams/{teamId}/timeline", "POST /teams/{teamId}/timeline"]),
    ("today_operations.rs", &["GET /organizations"]),
    (
        "today_teams.rs",
        &[
            "GET /teams/low-budgets",
            "GET /teams/overdue",
            "GET /teams/assigned",
            "GET /teams/failed-wakes",
            "GET /teams/inbox",
            "GET /teams/approvals",
            "GET /teams/exchange/peers",
        ],
    ),
    (
        "tools.rs",
        &[
            "POST /agents/tool-deployments",
            "GET /tools",
            "POST /tools",
            "GET /tools/types",
            "GET /tools/{toolId}",
            "GET /tools/{toolId}/versions",
            "PATCH /tools/{toolId}",
            "DELETE /tools/{toolId}",
        ],
    ),
    ("try_prompt.rs", &["POST /prompts/{promptName}/try"]),
    ("variable.rs", &["GET /environments/variables/{variableName}/usage"]),
    (
        "version.rs",
        &[
            "GET /registries/artifact-versions/content",
            "DELETE /registries/artifact-versions",
            "POST /prompts/{promptName}/render",
        ],
    ),
    ("visit.rs", &["GET /auth/session", "GET /waiting"]),
];

/// The routes that no page offers, and why.
const OTHERS: &[(&str, &str)] = &[
    ("GET /whoami", "It says whose a key is; who is signed in is on every page."),
    ("POST /auth/device-sign-ins", "A command line asks to be let in."),
    ("POST /auth/device-sign-ins/finish", "A command line asks whether it was let in."),
    ("POST /access-grants/bulk", "For scripts; a page grants one after another."),
    ("POST /agents/{stableKey}/heartbeat", "Runtimes report what they run."),
    (
        "GET /agents/{stableKey}/deployed",
        "Runtimes fetch what they run; the page of an agent has it with the environments.",
    ),
    (
        "GET /deployments",
        "The page of an agent has its history, and that of a prompt where it is live.",
    ),
    ("GET /deployments/{deploymentId}", "The job has the same plan."),
    ("GET /agent-index/listings/{listingId}/agent-card.json", "For programs that speak A2A."),
    ("GET /audit-logs/{eventId}", "The list has all of each entry."),
    ("GET /organizations/service-accounts", "The list of members has them."),
    ("PATCH /notifications/subscriptions/{subscriptionId}", "One is ended and made again."),
    ("POST /teams/{teamId}/tasks/{taskId}/claim", "Agents claim; people assign."),
    ("POST /teams/{teamId}/agents/{agentId}/heartbeat", "Workers give signs of life."),
    ("POST /teams/{teamId}/messages/{messageId}/consume", "Agents read what is for them."),
    (
        "POST /teams/{teamId}/agents/{agentId}/memories",
        "Agents remember; people read it and make them forget.",
    ),
    ("GET /prompts/inputs", "Plain files read all; a page is about one prompt."),
    ("POST /teams/{teamId}/agents/{agentId}/runs", "Agents report their runs."),
    ("POST /teams/{teamId}/approvals", "Agents ask; people decide."),
    ("POST /teams/{teamId}/inbox", "Agents write to people, who answer them by messages."),
    (
        "POST /prompts/{promptName}/drafts/{draftId}/publish",
        "The editor publishes what is in it, with its message, and deletes the draft of that version.",
    ),
    ("POST /exchange/{orgSlug}/{teamSlug}/requests", "For agents outside."),
    ("GET /exchange/{orgSlug}/{teamSlug}/requests/{requestId}", "For agents outside."),
    ("GET /exchange/{orgSlug}/{teamSlug}/messages", "For agents outside."),
    ("POST /exchange/{orgSlug}/{teamSlug}/messages", "For agents outside."),
];

/// The sources of the console, by the names of their files.
fn sources() -> BTreeMap<String, String> {
    let console = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
    let files =
        |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = files(&console).chain(files(&console.join("pages")));
    let rust = all.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let named = rust.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        (name, std::fs::read_to_string(&path).unwrap())
    });
    named.collect()
}

/// The last word of a route's path, which is in what calls it.
fn word(route: &str) -> &str {
    let mut words = route.rsplit('/').filter(|word| !word.starts_with('{'));
    words.next().unwrap()
}

#[test]
fn each_route_is_offered_by_a_page_or_has_a_reason_why_not() {
    let sources = sources();
    let mut known = BTreeMap::new();
    for (file, routes) in OFFERED {
        let source = sources.get(*file).unwrap_or_else(|| panic!("there is no {file}"));
        for route in *routes {
            assert!(source.contains(word(route)), "{file} does not call {route}");
            assert!(known.insert(*route, *file).is_none(), "{route} is there twice");
        }
    }
    for (route, reason) in OTHERS {
        assert!(known.insert(*route, *reason).is_none(), "{route} is there twice");
    }
    let routes = resources::routes();
    let routes = routes.iter().map(|route| format!("{} {}", route.method.as_str(), route.path));
    let routes: Vec<String> = routes.collect();
    let missing: Vec<_> =
        routes.iter().filter(|route| !known.contains_key(route.as_str())).collect();
    assert!(missing.is_empty(), "neither offered nor named: {missing:#?}");
    let gone: Vec<_> =
        known.keys().filter(|route| !routes.iter().any(|one| one == *route)).collect();
    assert!(gone.is_empty(), "there are no such routes: {gone:#?}");
}
