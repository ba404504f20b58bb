//! Tables of all routes, for a terminal and for the reference.

use super::labels::{group, scopes, who};
use crate::api::required_scope::ScopeReach;
use crate::api::route::Route;
use crate::auth::{ScopeName, TargetForm};

/// Explains the abbreviations in the column WHO.
pub const LEGEND: &str = "any: every client; m, a: a member, an admin, by key or session; \
                      sm, sa: the same by session only; s: any session; \
                      r: as m, and every client if the registry is public; \
                      i: as a, of those who administer the installation; \
                      n: an agent outside, which signs its requests";

/// Formats the routes in aligned columns, one block per group.
pub fn routes_table(routes: &[Route]) -> String {
    let width = |of: fn(&Route) -> usize| routes.iter().map(of).max().unwrap_or(0);
    let path_width = width(|route| route.path.len());
    let scope_width = width(|route| scopes(route).join(" ").len()).max("SCOPE".len());
    let line = |method: &str, path: &str, who: &str, scope: &str, about: &str| {
        let line =
            format!("{method:6}  {path:path_width$}  {who:3}  {scope:scope_width$}  {about}");
        line.trim_end().to_string() + "\n"
    };
    let mut table = line("METHOD", "PATH", "WHO", "SCOPE", "ABOUT");
    for (_, members) in groups(routes) {
        table.push('\n');
        for route in members {
            let (method, who) = (route.method.as_str(), who(route.policy));
            table += &line(method, route.path, who, &scopes(route).join(" "), route.about);
        }
    }
    table + "\n" + LEGEND + "\n"
}

/// Formats the scopes of API keys as a Markdown table: what each can be narrowed to, whether `read`
/// includes it, and its routes. `others` are what is no route of the API.
pub fn scopes_markdown(routes: &[Route], others: &[(ScopeName, &str)]) -> String {
    let mut text = String::from("| Scope | `@` | In `read` | Routes |\n|---|---|---|---|\n");
    for name in ScopeName::all() {
        let narrowed = Some(name.target().placeholder()).filter(|form| !form.is_empty());
        let narrowed = narrowed.map_or(String::new(), |form| format!("*{form}*"));
        let read = if name.is_read() { "yes" } else { "" };
        let needs = routes.iter().flat_map(|route| {
            let required = route.required_scopes.iter().filter(|required| required.name == name);
            required.map(move |required| (route, required.reach))
        });
        let mut needs: Vec<String> = needs
            .map(|(route, reach)| {
                let is_all = matches!(reach, ScopeReach::All);
                let mark = if is_all && name.target() != TargetForm::Nothing { "\\*" } else { "" };
                format!("{} `{}`{mark}", route.method.as_str(), route.path)
            })
            .collect();
        let besides = others.iter().filter(|(other, _)| *other == name);
        needs.extend(besides.map(|(_, what)| what.to_string()));
        text += &format!("| `{name}` | {narrowed} | {read} | {} |\n", needs.join(", "));
    }
    text
}

/// Formats the routes as Markdown tables, one section per group.
pub fn routes_markdown(routes: &[Route]) -> String {
    let mut text = format!("{LEGEND}\n");
    for (name, members) in groups(routes) {
        text += &format!("\n### {name}\n\n| Method | Path | Who | About |\n|---|---|---|---|\n");
        for route in members {
            let method = route.method.as_str();
            let about = route.about.replace('|', "\\|");
            text += &format!("| {method} | `{}` | {} | {about} |\n", route.path, who(route.policy));
        }
    }
    text
}

/// The routes by group; groups and their routes in the order of declaration.
fn groups(routes: &[Route]) -> Vec<(&str, Vec<&Route>)> {
    let mut groups: Vec<(&str, Vec<&Route>)> = Vec::new();
    for route in routes {
        match groups.iter_mut().find(|(name, _)| *name == group(route)) {
            Some((_, members)) => members.push(route),
            None => groups.push((group(route), vec![route])),
        }
    }
    groups
}
