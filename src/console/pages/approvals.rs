//! The approvals that a deployment or a change of a label waits for, and what its page says of them: who
//! decided, whether the visitor does, and whether enough can.

use serde::Deserialize;

use super::environments::Approvals;
use crate::auth::Role;
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::strict::{List, Nullable};
use crate::console::texts;
use crate::console::visit::Visit;

/// The approval of what waits for it by one of its approvers.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    pub user: Approver,
    pub decision: String,
    pub decided_at: Nullable<Time>,
    pub comment: Nullable<String>,
    pub via: Nullable<String>,
}

/// Who is to approve.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approver {
    id: String,
    pub name: String,
    pub email_verified: bool,
    pub can_decide: bool,
}

impl Approver {
    /// Whether they are verified, and cannot decide all the same.
    pub fn is_viewer(&self) -> bool {
        self.email_verified && !self.can_decide
    }
}

/// Why what a viewer decides does not count, and who changes that.
const VIEWER: &str = "you are a viewer, and only members whose e-mail address is verified approve. An \
                      admin changes your role";
/// The same of a member.
const UNVERIFIED: &str = "nobody here vouches for your e-mail address. An admin does";

/// Class, icon and word of a decision.
pub fn decision(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "approved" => ("good", "check", "Approved"),
        "denied" => ("bad", "octagon", "Denied"),
        _ => ("off", "clock", "Not decided"),
    }
}

/// What is to be approved.
pub struct Question<'a> {
    /// Whether it waits for approvals.
    pub is_open: bool,
    /// Who must approve it, if it takes approvals.
    pub policy: Option<&'a Approvals>,
    /// Who asked for it.
    pub asked_by: &'a str,
    /// Why it is not for whoever asked to decide.
    pub own: &'static str,
    /// Why it is not for others to decide.
    pub others: &'static str,
}

/// What a page says of approvals.
pub struct Decision {
    pub approvals: Vec<Approval>,
    pub may_decide: bool,
    /// Why the visitor does not decide about what waits; empty if they do, or it does not.
    pub why_not: &'static str,
    /// Why the visitor cannot decide although they are asked, and their own page.
    pub cannot: Option<(&'static str, String)>,
    /// That fewer of those who are asked can approve than must.
    pub too_few: String,
}

impl Decision {
    /// Reads the approvals of what the API has at a path.
    pub async fn read(visit: &Visit, path: &str, question: &Question<'_>) -> Result<Self> {
        let path = format!("{path}/approvals");
        let found: List<Approval> = visit.api.get(&path, &[("limit", "100")]).await?;
        let me = visit.signed_in().user.id.as_str();
        let page = visit.in_org(&format!("/settings/members/{}", segment(me)));
        Ok(Decision::of(found.items, question, (me, visit.member().role, page)))
    }

    fn of(
        approvals: Vec<Approval>,
        question: &Question<'_>,
        (me, role, page): (&str, Role, String),
    ) -> Self {
        if !question.is_open {
            let (why_not, too_few) = ("", String::new());
            return Decision { approvals, may_decide: false, why_not, cannot: None, too_few };
        }
        let own = approvals.iter().find(|one| one.user.id == me);
        let asked = own.filter(|one| one.decision == "pending").map(|one| &one.user);
        let may_decide = asked.is_some_and(|user| user.can_decide);
        let why = if role < Role::Member { VIEWER } else { UNVERIFIED };
        Decision {
            may_decide,
            why_not: why_not(question, own, me),
            cannot: (asked.is_some() && !may_decide).then_some((why, page)),
            too_few: too_few(question, &approvals),
            approvals,
        }
    }
}

/// Why somebody who is not asked, or has decided, finds no buttons.
fn why_not(question: &Question<'_>, own: Option<&Approval>, me: &str) -> &'static str {
    let prevents = question.policy.is_some_and(|policy| policy.prevent_self_approval);
    match own {
        Some(own) if own.decision == "pending" => "",
        Some(_) => "You have decided; it waits for others.",
        None if prevents && question.asked_by == me => question.own,
        None => question.others,
    }
}

/// Warns if fewer of those who are asked have approved, or can, than must.
fn too_few(question: &Question<'_>, approvals: &[Approval]) -> String {
    let can = |one: &&Approval| match one.decision.as_str() {
        "pending" | "approved" => one.user.can_decide,
        _ => false,
    };
    let needed = question.policy.map_or(0, |policy| policy.min_approvals);
    texts::too_few(approvals.iter().filter(can).count(), needed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn approval(user: &str, decision: &str, is_verified: bool) -> Approval {
        let approval = json!({
            "user": {"id": user, "name": user, "emailVerified": is_verified,
                "canDecide": is_verified},
            "decision": decision, "decidedAt": null, "comment": null, "via": null,
        });
        serde_json::from_value(approval).unwrap()
    }

    /// What is said to a member of a question that ann asked, and ben, cy and di are to approve.
    fn said_to(me: &str, is_open: bool) -> Decision {
        said_to_a(Role::Member, me, is_open)
    }

    fn said_to_a(role: Role, me: &str, is_open: bool) -> Decision {
        let approvals = vec![
            approval("ben", "pending", true),
            approval("cy", "pending", false),
            approval("di", "approved", true),
        ];
        let policy =
            Approvals { approver_ids: vec![], min_approvals: 3, prevent_self_approval: true };
        let (policy, asked_by) = (Some(&policy), "ann");
        let question = Question { is_open, policy, asked_by, own: "own", others: "others" };
        Decision::of(approvals, &question, (me, role, "page".into()))
    }

    #[test]
    fn a_page_says_why_its_visitor_does_not_decide() {
        let why_not = |me| said_to(me, true).why_not;
        assert_eq!([why_not("ann"), why_not("eve"), why_not("ben")], ["own", "others", ""]);
        assert!(why_not("di").starts_with("You have decided"));
        assert!(said_to("ben", true).may_decide && !said_to("cy", true).may_decide);
        assert_eq!(said_to("cy", true).cannot, Some((UNVERIFIED, "page".into())));
        assert_eq!(said_to_a(Role::Viewer, "cy", true).cannot, Some((VIEWER, "page".into())));
        for (me, is_open) in [("ben", true), ("di", true), ("eve", true), ("cy", false)] {
            assert_eq!(said_to_a(Role::Viewer, me, is_open).cannot, None, "{me}");
        }
    }

    #[test]
    fn a_page_warns_of_too_few_approvers_only_while_it_waits() {
        assert!(said_to("eve", true).too_few.starts_with("Only 2 of them can"));
        let ended = said_to("ben", false);
        assert_eq!((ended.too_few.as_str(), ended.why_not, ended.may_decide), ("", "", false));
    }
}
