//! Teams: memories, mail and wakes of a restricted agent, decisions, the exchange, the pause of all.

use serde_json::{Value, json};

use super::{
    ADMIN_WRITE, Listed, RESTRICTED_READ, RESTRICTED_WRITE, Row, SESSION_RESTRICTED_WRITE, WRITE,
    World,
};
use crate::exchange;

/// What is read, but leased by that: a key that may only read may not.
const LEASED: Row = RESTRICTED_WRITE;

impl World {
    fn memory(&self) -> String {
        let memories = self.of_quiet("/memories");
        let id = self.owner().post(&memories, json!({"content": "c"})).id();
        format!("{memories}/{id}")
    }

    /// Mail to the restricted agent.
    fn mail(&self) -> String {
        let mail = json!({"toAgentId": self.quiet, "body": "b"});
        let id = self.owner().post(&self.in_team("/messages"), mail).id();
        self.in_team(&format!("/messages/{id}"))
    }

    pub fn task(&self) -> String {
        let id = self.owner().post(&self.in_team("/tasks"), json!({"title": "t"})).id();
        self.in_team(&format!("/tasks/{id}"))
    }

    /// A schedule that wakes the restricted agent.
    pub fn schedule(&self) -> String {
        let new = json!({"name": "s", "cron": "0 9 * * mon",
            "wake": {"agentId": self.quiet, "text": "t"}});
        let id = self.owner().post(&self.in_team("/schedules"), new).id();
        self.in_team(&format!("/schedules/{id}"))
    }

    /// A question of the restricted agent.
    fn question(&self) -> String {
        let question = json!({"agentId": self.quiet, "title": "t"});
        let id = self.owner().post(&self.in_team("/approvals"), question).id();
        self.in_team(&format!("/approvals/{id}"))
    }

    /// An agent outside that waits.
    pub fn peer(&self) -> String {
        let id = exchange::pending(&self.acme, "crew", "scout");
        self.in_team(&format!("/exchange/peers/{id}"))
    }

    /// One that was let in.
    fn accepted(&self) -> String {
        let peer = self.peer();
        self.owner().post(&format!("{peer}/accept"), json!({})).ok();
        peer
    }

    /// A rule of the team, or of the organization.
    fn rule(&self, org_wide: bool) -> Value {
        json!({"domain": format!("{}.test", self.fresh("ruled")), "rule": "block",
            "orgWide": org_wide})
    }

    fn made_rule(&self, org_wide: bool) -> String {
        let rules = self.in_team("/exchange/domain-rules");
        let id = self.owner().post(&rules, self.rule(org_wide)).id();
        format!("{rules}/{id}")
    }
}

pub const LISTED: &[Listed] = &[
    ("DELETE /teams/{teamId}", ADMIN_WRITE, |w| {
        let new = json!({"slug": w.fresh("team"), "name": "T"});
        (format!("/teams/{}", w.owner().post("/teams", new).id()), Value::Null)
    }),
    ("PATCH /teams/{teamId}/agents/{agentId}", RESTRICTED_WRITE, |w| {
        (w.of_quiet(""), json!({"skills": ["s"]}))
    }),
    // What is an agent's own.
    ("GET /teams/{teamId}/agents/{agentId}/memories", RESTRICTED_READ, |w| {
        (w.of_quiet("/memories"), Value::Null)
    }),
    ("POST /teams/{teamId}/agents/{agentId}/memories", RESTRICTED_WRITE, |w| {
        (w.of_quiet("/memories"), json!({"content": "c"}))
    }),
    ("DELETE /teams/{teamId}/agents/{agentId}/memories/{memoryId}", RESTRICTED_WRITE, |w| {
        (w.memory(), Value::Null)
    }),
    ("GET /teams/{teamId}/agents/{agentId}/runs", RESTRICTED_READ, |w| {
        (w.of_quiet("/runs"), Value::Null)
    }),
    ("POST /teams/{teamId}/agents/{agentId}/runs", RESTRICTED_WRITE, |w| {
        (w.of_quiet("/runs"), json!({"status": "succeeded"}))
    }),
    ("GET /teams/{teamId}/agents/{agentId}/wakes", LEASED, |w| (w.of_quiet("/wakes"), Value::Null)),
    ("POST /teams/{teamId}/agents/{agentId}/wakes/ack", RESTRICTED_WRITE, |w| {
        (w.of_quiet("/wakes/ack"), json!({"wakeIds": []}))
    }),
    ("GET /teams/{teamId}/agents/{agentId}/wakes/failed", RESTRICTED_READ, |w| {
        (w.of_quiet("/wakes/failed"), Value::Null)
    }),
    ("POST /teams/{teamId}/agents/{agentId}/pause", RESTRICTED_WRITE, |w| {
        w.owner().post(&w.of_quiet("/resume"), json!({})).ok();
        (w.of_quiet("/pause"), json!({"reason": "r"}))
    }),
    // Mail and tasks.
    ("POST /teams/{teamId}/messages", RESTRICTED_WRITE, |w| {
        (w.in_team("/messages"), json!({"toAgentId": w.quiet, "body": "b"}))
    }),
    ("POST /teams/{teamId}/messages", RESTRICTED_WRITE, |w| {
        let mail = json!({"fromAgentId": w.quiet, "toAgentId": w.open, "body": "b"});
        (w.in_team("/messages"), mail)
    }),
    ("GET /teams/{teamId}/messages/{messageId}", RESTRICTED_READ, |w| (w.mail(), Value::Null)),
    ("PATCH /teams/{teamId}/messages/{messageId}", WRITE, |w| {
        let mail = json!({"fromAgentId": w.open, "body": "b"});
        let id = w.owner().post(&w.in_team("/inbox"), mail).id();
        (w.in_team(&format!("/messages/{id}")), json!({}))
    }),
    ("POST /teams/{teamId}/messages/{messageId}/consume", RESTRICTED_WRITE, |w| {
        (format!("{}/consume", w.mail()), json!({"agentId": w.quiet}))
    }),
    ("POST /teams/{teamId}/inbox", RESTRICTED_WRITE, |w| {
        (w.in_team("/inbox"), json!({"fromAgentId": w.quiet, "body": "b"}))
    }),
    ("POST /teams/{teamId}/tasks", RESTRICTED_WRITE, |w| {
        (w.in_team("/tasks"), json!({"title": "t", "assigneeAgentId": w.quiet}))
    }),
    ("POST /teams/{teamId}/tasks/{taskId}/claim", RESTRICTED_WRITE, |w| {
        (format!("{}/claim", w.task()), json!({"agentId": w.quiet}))
    }),
    ("DELETE /teams/{teamId}/schedules/{scheduleId}", RESTRICTED_WRITE, |w| {
        (w.schedule(), Value::Null)
    }),
    // Decisions.
    ("POST /teams/{teamId}/approvals", RESTRICTED_WRITE, |w| {
        (w.in_team("/approvals"), json!({"agentId": w.quiet, "title": "t"}))
    }),
    ("POST /teams/{teamId}/approvals/{approvalId}/decide", SESSION_RESTRICTED_WRITE, |w| {
        (format!("{}/decide", w.question()), json!({"decision": "approved"}))
    }),
    // The exchange.
    ("POST /teams/{teamId}/exchange/domain-rules", WRITE, |w| {
        (w.in_team("/exchange/domain-rules"), w.rule(false))
    }),
    ("POST /teams/{teamId}/exchange/domain-rules", ADMIN_WRITE, |w| {
        (w.in_team("/exchange/domain-rules"), w.rule(true))
    }),
    ("DELETE /teams/{teamId}/exchange/domain-rules/{ruleId}", WRITE, |w| {
        (w.made_rule(false), Value::Null)
    }),
    ("DELETE /teams/{teamId}/exchange/domain-rules/{ruleId}", ADMIN_WRITE, |w| {
        (w.made_rule(true), Value::Null)
    }),
    ("POST /teams/{teamId}/exchange/peers/{peerId}/accept", WRITE, |w| {
        (format!("{}/accept", w.peer()), json!({}))
    }),
    ("POST /teams/{teamId}/exchange/peers/{peerId}/refuse", WRITE, |w| {
        (format!("{}/refuse", w.peer()), json!({"reason": "r"}))
    }),
    ("POST /teams/{teamId}/exchange/peers/{peerId}/block", WRITE, |w| {
        (format!("{}/block", w.peer()), json!({}))
    }),
    ("DELETE /teams/{teamId}/exchange/peers/{peerId}", WRITE, |w| (w.peer(), Value::Null)),
    ("POST /teams/{teamId}/exchange/peers/{peerId}/messages", WRITE, |w| {
        (format!("{}/messages", w.accepted()), json!({"body": "b"}))
    }),
    // All agents.
    ("POST /teams/pause", ADMIN_WRITE, |w| {
        w.owner().post("/teams/resume", json!({})).ok();
        ("/teams/pause".into(), json!({"reason": "r"}))
    }),
    ("POST /teams/resume", ADMIN_WRITE, |w| {
        w.owner().post("/teams/pause", json!({"reason": "r"})).ok();
        ("/teams/resume".into(), json!({}))
    }),
];
