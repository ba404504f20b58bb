//! `openapi-python-client` makes a client of the document, and that client works.

use std::path::Path;
use std::process::Command;

use crate::environment;
use crate::optional::run;
use crate::server::Acme;

/// Uses the generated package `roadstead_client`. Names of modules and functions are those that the
/// generator makes of paths; they are found by the paths, so that no rename breaks this.
const USE: &str = r#"
import importlib, inspect, os, pkgutil, re, sys
import roadstead_client, roadstead_client.api, roadstead_client.models as models

client = roadstead_client.AuthenticatedClient(
    base_url=os.environ["BASE"], token=os.environ["KEY"], prefix="", auth_header_name="X-API-Key")
modules = []
for package in pkgutil.walk_packages(roadstead_client.api.__path__, "roadstead_client.api."):
    modules.append(importlib.import_module(package.name))
modules = [module for module in modules if hasattr(module, "sync_detailed")]
assert len(modules) > 80, len(modules)

def operation(method, path):
    for module in modules:
        source = inspect.getsource(module._get_kwargs)
        made = f'"method": "{method}"' in source and f'"url": "{path}"' in source
        if made:
            return module
    sys.exit(f"no operation {method} {path}")

def body_of(module):
    annotation = inspect.signature(module.sync_detailed).parameters["body"].annotation
    name = str(getattr(annotation, "__name__", annotation)).strip("'").split(" |")[0].split(".")[-1]
    return getattr(models, name)

create = operation("post", "/tools")
made = create.sync_detailed(client=client, body=body_of(create).from_dict(
    {"orgSlug": "acme", "name": "search", "type": "function"}))
assert made.status_code == 200, made.content
tool = made.parsed.to_dict()
assert tool["name"] == "search", tool

listed = operation("get", "/tools").sync_detailed(client=client, org_slug="acme")
assert listed.status_code == 200, listed.content
assert [item["id"] for item in listed.parsed.to_dict()["items"]] == [tool["id"]]

missing = operation("get", "/teams").sync_detailed(client=client, org_slug="other")
assert missing.status_code == 404, missing.content
# Names that the generator made up, where the document has none.
made_up = [name for name in dir(models) if re.search(r"Type\d", name)]
assert made_up == [], made_up
print(len(modules), "operations")
"#;

#[test]
fn a_generated_python_client_works() {
    let what = "a client made by openapi-python-client";
    let Some(place) = environment("CLIENT", what) else { return };
    let acme = Acme::start(&[]);
    let scratch = tempfile::tempdir().unwrap();
    let document = scratch.path().join("openapi.json");
    std::fs::write(&document, acme.owner.get("/openapi.json").body).unwrap();
    let config = scratch.path().join("config.yml");
    std::fs::write(&config, "package_name_override: roadstead_client\npost_hooks: []\n").unwrap();
    let made = scratch.path().join("made");
    let said = run(Command::new(place.join("bin/openapi-python-client"))
        .args(["generate", "--meta", "none", "--path"])
        .arg(&document)
        .arg("--config")
        .arg(&config)
        .arg("--output-path")
        .arg(made.join("roadstead_client"))
        .current_dir(scratch.path()));
    assert!(!said.contains("rror"), "{said}");
    run(Command::new(place.join("bin/python"))
        .args(["-c", USE])
        .env("PYTHONPATH", &made)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("BASE", acme.api())
        .env("KEY", &acme.key)
        .current_dir(Path::new("/")));
}
