//! Tables of all routes, for a terminal and for a README.

use super::labels::{group, who};
use crate::api::route::Route;

/// Explains the abbreviations in the column WHO.
pub const LEGEND: &str = "any: every client; m, a: a member, an admin, by key or session; \
                      sm, sa: the same by session only; s: any session; \
                      r: as m, and every client if the registry is public; \
                      n: an agent outside, which signs its requests";

/// Formats the routes in aligned columns, one block per group.
pub fn routes_table(routes: &[Route]) -> String {
    let width = |of: fn(&Route) -> usize| routes.iter().map(of).max().unwrap_or(0);
    let path_width = width(|route| route.path.len());
    let line = |method: &str, path: &str, who: &str, about: &str| {
        format!("{method:6}  {path:path_width$}  {who:3}  {about}").trim_end().to_string() + "\n"
    };
    let mut table = line("METHOD", "PATH", "WHO", "ABOUT");
    for (_, members) in groups(routes) {
        table.push('\n');
        for route in members {
            table += &line(route.method.as_str(), route.path, who(route.policy), route.about);
        }
    }
    table + "\n" + LEGEND + "\n"
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
