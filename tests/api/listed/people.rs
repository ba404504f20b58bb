//! Members, roles, keys, grants, the audit log, the installation.

use roadstead::auth::{SecondFactor, begin_second_factor};
use roadstead::base::Id;
use roadstead::store::Tx;
use serde_json::{Value, json};

use super::{
    ADMIN_READ, ADMIN_WRITE, INSTALLATION_READ, Listed, READ, SESSION, SESSION_ADMIN,
    SESSION_OTHERS, SESSION_OWNER, SESSION_SELF, SESSION_WRITE, World,
};

impl World {
    /// A member with a second factor.
    fn guarded_person(&self) -> String {
        let person = self.person();
        let user = Id::parse(&person);
        let turn_on = move |tx: &mut Tx| {
            begin_second_factor(tx, user)?;
            tx.fetch::<SecondFactor>(&user)?.turn_on(tx)
        };
        self.running.store.write_blocking(Id::NIL, turn_on).unwrap();
        person
    }

    fn invitation(&self, role: &str) -> Value {
        json!({"email": format!("{}@else.test", self.fresh("guest")), "role": role})
    }

    /// A new key of the owner; its id.
    fn key(&self) -> String {
        self.owner().post("/api-keys", json!({"name": "k"})).id()
    }

    pub fn account(&self) -> String {
        self.owner().post("/organizations/service-accounts", json!({"name": "bot"})).id()
    }

    /// A grant that does not exist yet.
    fn grant(&self) -> Value {
        let new = json!({"slug": self.fresh("granted"), "name": "G", "access": "restricted"});
        let environment = self.owner().post("/environments", new).id();
        json!({"userId": self.acme.member_id, "resourceType": "environment",
            "resourceId": environment})
    }
}

pub const LISTED: &[Listed] = &[
    // The organization and its members.
    ("PATCH /organizations", SESSION_ADMIN, |_| {
        ("/organizations".into(), json!({"name": "An organization"}))
    }),
    ("GET /organizations/members", READ, |_| ("/organizations/members".into(), Value::Null)),
    ("POST /organizations/members", SESSION_ADMIN, |w| {
        ("/organizations/members".into(), w.invitation("member"))
    }),
    ("POST /organizations/members", SESSION_ADMIN, |w| {
        ("/organizations/members".into(), w.invitation("admin"))
    }),
    ("POST /organizations/members", SESSION_OWNER, |w| {
        ("/organizations/members".into(), w.invitation("owner"))
    }),
    ("PATCH /organizations/members/{userId}", SESSION_ADMIN, |w| {
        (format!("/organizations/members/{}", w.person()), json!({"role": "admin"}))
    }),
    ("PATCH /organizations/members/{userId}", SESSION_ADMIN, |w| {
        (format!("/organizations/members/{}", w.person()), json!({"emailVerified": false}))
    }),
    ("PATCH /organizations/members/{userId}", SESSION_OWNER, |w| {
        (format!("/organizations/members/{}", w.person()), json!({"role": "owner"}))
    }),
    ("DELETE /organizations/members/{userId}", SESSION_ADMIN, |w| {
        (format!("/organizations/members/{}", w.person()), Value::Null)
    }),
    ("DELETE /organizations/members/{userId}", SESSION_OWNER, |w| {
        let path = format!("/organizations/members/{}", w.person());
        w.owner().patch(&path, json!({"role": "owner"})).ok();
        (path, Value::Null)
    }),
    ("POST /organizations/members/{userId}/password-reset", SESSION_ADMIN, |w| {
        (format!("/organizations/members/{}/password-reset", w.person()), json!({}))
    }),
    ("PUT /organizations/sign-in", SESSION_OWNER, |_| {
        ("/organizations/sign-in".into(), json!({"domains": []}))
    }),
    ("DELETE /organizations/members/{userId}/second-factor", SESSION_ADMIN, |w| {
        (format!("/organizations/members/{}/second-factor", w.guarded_person()), Value::Null)
    }),
    ("GET /organizations/invitations", SESSION_ADMIN, |_| {
        ("/organizations/invitations".into(), Value::Null)
    }),
    ("DELETE /organizations/invitations/{invitationId}", SESSION_ADMIN, |w| {
        w.owner().post("/organizations/members", w.invitation("member")).ok();
        let open = w.owner().get("/organizations/invitations").items();
        let id = open[0]["id"].as_str().unwrap();
        (format!("/organizations/invitations/{id}"), Value::Null)
    }),
    ("GET /organizations/service-accounts", SESSION_ADMIN, |_| {
        ("/organizations/service-accounts".into(), Value::Null)
    }),
    ("POST /organizations/service-accounts", SESSION_ADMIN, |_| {
        ("/organizations/service-accounts".into(), json!({"name": "bot", "role": "admin"}))
    }),
    ("PATCH /organizations/service-accounts/{serviceAccountId}", SESSION_ADMIN, |w| {
        (format!("/organizations/service-accounts/{}", w.account()), json!({"role": "admin"}))
    }),
    ("DELETE /organizations/service-accounts/{serviceAccountId}", SESSION_ADMIN, |w| {
        (format!("/organizations/service-accounts/{}", w.account()), Value::Null)
    }),
    // Keys.
    ("GET /api-keys", SESSION, |_| ("/api-keys".into(), Value::Null)),
    ("POST /api-keys", SESSION, |_| ("/api-keys".into(), json!({"name": "k", "access": "read"}))),
    ("POST /api-keys", SESSION_WRITE, |_| ("/api-keys".into(), json!({"name": "k"}))),
    ("POST /api-keys", SESSION_ADMIN, |_| {
        ("/api-keys".into(), json!({"name": "k", "allowApproveAs": true}))
    }),
    ("POST /api-keys", SESSION_ADMIN, |w| {
        ("/api-keys".into(), json!({"name": "k", "serviceAccountId": w.account()}))
    }),
    ("DELETE /api-keys/{keyId}", SESSION_OTHERS, |w| {
        (format!("/api-keys/{}", w.key()), Value::Null)
    }),
    // Of another person nobody gets a key, not even an admin who may revoke it.
    ("POST /api-keys/{keyId}/rotate", SESSION_SELF, |w| {
        (format!("/api-keys/{}/rotate", w.key()), json!({}))
    }),
    ("POST /api-keys/{keyId}/rotate", SESSION_OTHERS, |w| {
        let new = json!({"name": "k", "serviceAccountId": w.account()});
        let key = w.owner().post("/api-keys", new).id();
        (format!("/api-keys/{key}/rotate"), json!({}))
    }),
    ("POST /api-keys/{keyId}/take-over", SESSION_ADMIN, |w| {
        let new = json!({"name": "k", "serviceAccountId": w.account()});
        let key = w.owner().post("/api-keys", new).id();
        (format!("/api-keys/{key}/take-over"), json!({}))
    }),
    // Grants.
    ("GET /access-grants", READ, |_| ("/access-grants".into(), Value::Null)),
    ("POST /access-grants", ADMIN_WRITE, |w| ("/access-grants".into(), w.grant())),
    ("POST /access-grants/bulk", ADMIN_WRITE, |w| {
        ("/access-grants/bulk".into(), json!({"grants": [w.grant()]}))
    }),
    ("DELETE /access-grants/{grantId}", ADMIN_WRITE, |w| {
        let id = w.owner().post("/access-grants", w.grant()).id();
        (format!("/access-grants/{id}"), Value::Null)
    }),
    ("GET /access/explain", ADMIN_READ, |w| {
        let query = format!("action=tool.create&userId={}", w.acme.member_id);
        (format!("/access/explain?{query}"), Value::Null)
    }),
    // The audit log and the installation.
    ("GET /audit-logs", SESSION_ADMIN, |_| ("/audit-logs".into(), Value::Null)),
    ("GET /audit-logs/{eventId}", SESSION_ADMIN, |w| {
        w.acme.chained();
        let id = w.owner().get("/audit-logs").items()[0]["id"].clone();
        (format!("/audit-logs/{}", id.as_str().unwrap()), Value::Null)
    }),
    ("GET /audit-logs/checkpoint", SESSION_ADMIN, |_| {
        ("/audit-logs/checkpoint".into(), Value::Null)
    }),
    ("GET /system", INSTALLATION_READ, |_| ("/system".into(), Value::Null)),
    ("GET /waiting", SESSION, |_| ("/waiting".into(), Value::Null)),
    ("GET /search", SESSION, |_| ("/search?q=plain".into(), Value::Null)),
    // Domains and the agent index.
    ("POST /organizations/domains", ADMIN_WRITE, |w| {
        ("/organizations/domains".into(), json!({"domain": format!("{}.test", w.fresh("claimed"))}))
    }),
    ("POST /organizations/domains/{domainId}/verifications", ADMIN_WRITE, |w| {
        (format!("/organizations/domains/{}/verifications", w.domain()), json!({}))
    }),
    ("DELETE /organizations/domains/{domainId}", ADMIN_WRITE, |w| {
        (format!("/organizations/domains/{}", w.domain()), Value::Null)
    }),
    ("POST /agent-index/listings", ADMIN_WRITE, |w| ("/agent-index/listings".into(), w.listing())),
    ("GET /agent-index/listings/{listingId}", READ, |w| {
        (format!("/agent-index/listings/{}", w.listed()), Value::Null)
    }),
    ("PATCH /agent-index/listings/{listingId}", ADMIN_WRITE, |w| {
        (format!("/agent-index/listings/{}", w.listed()), json!({"visibility": "public"}))
    }),
    ("DELETE /agent-index/listings/{listingId}", ADMIN_WRITE, |w| {
        (format!("/agent-index/listings/{}", w.listed()), Value::Null)
    }),
];

impl World {
    pub fn domain(&self) -> String {
        let new = json!({"domain": format!("{}.test", self.fresh("claimed"))});
        self.owner().post("/organizations/domains", new).id()
    }

    /// A listing that does not exist yet.
    fn listing(&self) -> Value {
        json!({"stableKey": "open", "handle": format!("{}@listed.test", self.fresh("agent")),
            "pubkey": crate::records::KEY, "displayName": "Open"})
    }

    pub fn listed(&self) -> String {
        self.owner().post("/agent-index/listings", self.listing()).id()
    }
}
